//! Programs that are run with patience.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use crate::base::executable;

/// The most bytes of a program's output that are read.
const MOST_OUTPUT: u64 = 1 << 20;

/// The reason why a program can't be run, as far as its file tells.
pub(super) fn lacks(program: &Path) -> Option<String> {
    let name = program.display();
    let is_path = program.components().count() > 1;
    let file = if is_path { Some(program.to_owned()) } else { executable::called(program) };
    let Some(file) = file else { return Some(format!("there is no program {name}")) };
    match file.metadata() {
        Err(error) => Some(format!("{name}: {error}")),
        Ok(meta) if !meta.is_file() => Some(format!("{name} is no file")),
        Ok(meta) if meta.permissions().mode() & 0o111 == 0 => {
            Some(format!("{name} is no program: no user may execute it; chmod +x it"))
        }
        Ok(_) => None,
    }
}

/// The output of a program, whatever its exit status; it is killed when it takes too long.
pub(super) fn output_of(program: &Path, args: &[String], patience: Duration) -> Result<Vec<u8>, String> {
    let name = program.display();
    let mut child = Command::new(program)
        .args(args)
        .stdin(executable::nothing())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{name} can't be run: {error}"))?;
    let output = read(&mut child).map_err(|why| format!("{name}: {why}"))?.recv_timeout(patience);
    // One that has closed its output may go on: it is not waited for.
    let _ = child.kill();
    let _ = child.wait();
    match output {
        Ok(Ok(text)) => Ok(text),
        Ok(Err(error)) => Err(format!("{name}: {error}")),
        Err(_) => Err(format!("{name} did not end within {} s, and was killed", patience.as_secs())),
    }
}

/// Reads the output of a program on a thread of its own.
fn read(child: &mut Child) -> std::io::Result<Receiver<std::io::Result<Vec<u8>>>> {
    let Some(pipe) = child.stdout.take() else { return Err(std::io::ErrorKind::BrokenPipe.into()) };
    let (tell, output) = channel();
    let reads = move || {
        let mut text = Vec::new();
        let read = pipe.take(MOST_OUTPUT).read_to_end(&mut text);
        let _ = tell.send(read.map(|_| text));
    };
    std::thread::Builder::new().name("read".into()).spawn(reads)?;
    Ok(output)
}

/// Runs a program to its end, or kills it when it takes too long. Gives its output.
pub(super) fn run(
    program: &Path,
    args: &[String],
    stdin: Option<String>,
    patience: Duration,
) -> Result<Vec<u8>, String> {
    let name = program.display();
    let input = if stdin.is_some() { Stdio::piped() } else { executable::nothing() };
    let mut child = Command::new(program)
        .args(args)
        .stdin(input)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{name} can't be run: {error}"))?;
    if let (Some(text), Some(mut pipe)) = (stdin, child.stdin.take()) {
        // A program that does not read it says why by how it ends.
        let write = move || drop(pipe.write_all(text.as_bytes()));
        let _ = std::thread::Builder::new().name("write".into()).spawn(write);
    }
    let output = read(&mut child);
    let until = Instant::now() + patience;
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => {
                // Its output may be open in programs that it has started: these are not waited for.
                let output = output.ok().and_then(|output| output.recv_timeout(Duration::from_secs(1)).ok());
                return Ok(output.and_then(Result::ok).unwrap_or_default());
            }
            Ok(Some(status)) => return Err(format!("{name} ended with {status}")),
            Ok(None) if Instant::now() < until => std::thread::sleep(Duration::from_millis(20)),
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                let seconds = patience.as_secs();
                return Err(format!("{name} did not end within {seconds} s, and was killed"));
            }
            Err(error) => return Err(format!("{name}: {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    #[test]
    fn output_is_read_with_patience() {
        let shell =
            |words: &str, patience| output_of(Path::new("sh"), &["-c".into(), words.into()], patience);
        assert_eq!(shell("echo a; exit 3", PATIENCE), Ok(b"a\n".to_vec()));
        let late = shell("exec sleep 600", Duration::from_millis(50)).unwrap_err();
        assert!(late.contains("sh did not end"), "{late}");
        assert!(output_of(Path::new("/no/such"), &[], PATIENCE).unwrap_err().contains("can't be run"));
    }

    #[test]
    fn a_program_that_hangs_is_killed_and_one_that_fails_is_named() {
        let sleep = run(Path::new("sleep"), &["600".into()], None, Duration::from_millis(50)).unwrap_err();
        assert!(sleep.contains("sleep did not end"), "{sleep}");
        let fails = run(Path::new("false"), &[], None, PATIENCE).unwrap_err();
        assert!(fails.contains("false ended with"), "{fails}");
        let none = run(Path::new("/no/such"), &[], None, PATIENCE).unwrap_err();
        assert!(none.contains("/no/such can't be run"), "{none}");
        // More than a pipe holds goes in, and out.
        let long = "x".repeat(200_000);
        assert_eq!(run(Path::new("cat"), &[], Some(long.clone()), PATIENCE).unwrap(), long.as_bytes());
        assert!(run(Path::new("true"), &[], Some(long), PATIENCE).is_ok());
    }
}
