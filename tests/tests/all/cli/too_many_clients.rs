//! More clients than there may be.

use super::*;

#[test]
fn a_client_that_reads_no_reply_makes_room_for_another() {
    use std::io::{Read, Write};
    let set = Set::raid5(3);
    let server = set.serve("--max-connections 2");
    let socket = set.runtime().join("a.nbd");
    let connect = || brindle_export::nbd::client::Client::connect(socket_of(&socket), "");
    let mut idle = connect().unwrap();
    let deaf = socket_of(&socket);
    let (mut speaking, mut request) = (&deaf, vec![0, 0, 0, 3]);
    // EXPORT_NAME, then a read of 4 KiB.
    request.extend(*b"IHAVEOPT\0\0\0\x01\0\0\0\0");
    speaking.write_all(&request).unwrap();
    let mut greeting = [0; 28];
    speaking.read_exact(&mut greeting).unwrap();
    let read = brindle_export::nbd::proto::Request { len: 4096, ..Default::default() };
    speaking.write_all(&read.encode()).unwrap();
    // Nobody is sent away at once: only who has read nothing for ten seconds.
    assert!(connect().is_err());
    let mut tries = 0;
    let mut newcomer = loop {
        match connect() {
            Ok(newcomer) => break newcomer,
            Err(_) => tries += 1,
        }
        assert!(tries < 600, "no room is made");
        std::thread::sleep(std::time::Duration::from_millis(100));
    };
    let mut content = [1; 512];
    newcomer.read(0, &mut content).unwrap();
    idle.read(0, &mut content).unwrap();
    assert_eq!(content, [0; 512]);
    let (code, err) = server.signal(rustix::process::Signal::TERM);
    assert!(code == 0 && err.contains("reads none of its replies"), "{err}");
    assert!(run("serve --max-connections 0", &set.members).ended(2).err.contains("--max-connections"));
}

fn socket_of(path: &Path) -> std::os::unix::net::UnixStream {
    let stream = std::os::unix::net::UnixStream::connect(path).unwrap();
    let patience = Some(std::time::Duration::from_secs(60));
    stream.set_read_timeout(patience).unwrap();
    stream
}
