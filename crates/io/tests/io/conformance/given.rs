//! Memory that others give: what they change at any time, and get back when the last operation has ended.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};

use brindle_io::{Duration, Given, MAX_BUF, NotGiven, PAGE, Pages};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::io::Errno;

use crate::conformance::Stage;
use crate::conformance::worlds::{AtCommand, World};

/// Bytes of an arena.
const ARENA: u64 = 4 << 20;
const BLOCK: u32 = 512;

/// A guest's memory, as the guest has it: what it does to it, it does by the file.
fn memory(bytes: u64) -> File {
    let file = File::from(memfd_create("guest", MemfdFlags::ALLOW_SEALING).unwrap());
    file.set_len(bytes).unwrap();
    fcntl_add_seals(&file, SealFlags::SHRINK).unwrap();
    file
}

fn give<W: World>(stage: &Stage<W>, file: &File, pages: Pages) -> Given {
    stage.io.given(file, 0, file.metadata().unwrap().len(), pages).unwrap()
}

/// Whether this process has the file mapped.
fn is_mapped(file: &File) -> bool {
    let inode = file.metadata().unwrap().ino().to_string();
    let mappings = std::fs::read_to_string("/proc/self/maps").unwrap();
    mappings
        .lines()
        .any(|line| line.contains("memfd:guest") && line.split_whitespace().nth(4) == Some(&inode))
}

/// Waits until nothing has a page of the file. The kernel seals writes only then. It may itself still hold a page for
/// a moment after the last operation, when it marks those that were read into as dirty, or looks for idle ones.
fn wait_for_pages(file: &File) {
    assert!(!is_mapped(file));
    while let Err(held) = fcntl_add_seals(file, SealFlags::WRITE) {
        assert_eq!(held, Errno::BUSY);
    }
}

fn bytes_of(file: &File, offset: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, offset).unwrap();
    bytes
}

pub(crate) fn given_memory_is_read_and_filled_where_it_is<W: World>(stage: &Stage<W>) {
    let (io, member) = (&stage.io, stage.world.member(1 << 20));
    for pages in [Pages::Stay, Pages::MayGo] {
        let file = memory(3 * ARENA);
        let given = give(stage, &file, pages);
        assert_eq!((given.len() as u64, io.arenas()), (3 * ARENA, 0), "nobody has asked for any of it");
        let put: Vec<u8> = (0..96 << 10).map(|at: u32| (at % 251) as u8).collect();
        // Across the border of two arenas, and beside a page's.
        let at = ARENA - (64 << 10) + 512;
        file.write_all_at(&put, at).unwrap();
        let from = given.slice(at, put.len(), BLOCK).unwrap();
        assert!(from.is_shared() && !from.is_pinned());
        assert_eq!(io.arenas(), if pages == Pages::Stay { 2 } else { 0 });
        let into = given.slice(2 * ARENA + 1024, put.len(), BLOCK).unwrap();
        io.block_on(async {
            let mut group = io.group();
            group.write(member, 4096, &from.slice(0..512), false);
            group.write(member, 4096 + 512, &from.slice(512..put.len()), false);
            assert_eq!(group.len(), 1, "what goes on where it ended is one operation");
            group.submit().await.ok().unwrap();
            let mut group = io.group();
            group.read(member, 4096, &into);
            // Memory beside it in the same pages is in use meanwhile.
            group.write(member, 512 << 10, &given.slice(2 * ARENA, 1024, BLOCK).unwrap(), false);
            group.submit().await.ok().unwrap();
        });
        assert!(bytes_of(&file, 2 * ARENA + 1024, put.len()) == put);
        let mut copy = vec![0; put.len()];
        into.copy_to(&mut copy);
        assert!(copy == put);
        into.slice(3..17).put(1, b"otherwise");
        assert_eq!(bytes_of(&file, 2 * ARENA + 1024 + 4, 9), b"otherwise");
        drop((given, from));
        assert!(is_mapped(&file), "a slice is left");
        drop(into);
        wait_for_pages(&file);
        assert_eq!(io.arenas(), 0);
    }
}

/// The bytes of such memory are never looked at where they are.
pub(crate) fn given_memory_is_not_looked_at<W: World>(stage: &Stage<W>) {
    let file = memory(ARENA);
    let given = give(stage, &file, Pages::MayGo);
    let slice = given.slice(4096, 8192, BLOCK).unwrap();
    let looks: [&dyn Fn(); 2] = [&|| drop(slice.bytes()), &|| drop(slice.bytes_mut())];
    for look in looks {
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(look));
        let message = panicked.expect_err("it is a bug");
        let message = message.downcast_ref::<&str>().unwrap();
        assert!(message.starts_with("others change this memory"), "{message}");
    }
}

pub(crate) fn given_memory_is_refused_that_could_go_or_does_not_fit<W: World>(stage: &Stage<W>) {
    let io = &stage.io;
    let refused = |file: &File, offset, len| io.given(file, offset, len, Pages::Stay).unwrap_err();
    let plain = tempfile::tempfile().unwrap();
    plain.set_len(ARENA).unwrap();
    assert_eq!(refused(&plain, 0, ARENA), NotGiven::Unsealed);
    let loose = File::from(memfd_create("guest", MemfdFlags::ALLOW_SEALING).unwrap());
    loose.set_len(ARENA).unwrap();
    fcntl_add_seals(&loose, SealFlags::GROW).unwrap();
    assert_eq!(refused(&loose, 0, ARENA), NotGiven::Unsealed);
    let file = memory(ARENA);
    assert_eq!(refused(&file, 0, ARENA + 4096), NotGiven::OutOfRange(ARENA));
    assert_eq!(refused(&file, ARENA, 0), NotGiven::OutOfRange(ARENA));
    assert_eq!(refused(&file, u64::MAX - 4095, 4096), NotGiven::OutOfRange(u64::MAX));
    assert_eq!(refused(&file, 512, 4096), NotGiven::Unaligned(4096));
    assert_eq!(refused(&file, 4096, 512), NotGiven::Unaligned(4096));
    let vast = memory(1 << 60);
    assert!(matches!(refused(&vast, 0, 1 << 60), NotGiven::Refused(_)));

    let given = io.given(&file, 4096, ARENA - 4096, Pages::Stay).unwrap();
    let (len, refused) = (given.len() as u64, |at, len, block| given.slice(at, len, block).unwrap_err());
    assert_eq!(refused(len - 512, 1024, BLOCK), NotGiven::OutOfRange(len));
    assert_eq!(refused(len + 512, 0, BLOCK), NotGiven::OutOfRange(len));
    assert_eq!(refused(u64::MAX, 512, BLOCK), NotGiven::OutOfRange(len));
    assert_eq!(refused(0, MAX_BUF + 512, BLOCK), NotGiven::OutOfRange(len));
    assert_eq!(refused(256, 512, BLOCK), NotGiven::Unaligned(512));
    assert_eq!(refused(0, 513, BLOCK), NotGiven::Unaligned(512));
    assert_eq!(refused(512, 4096, 4096), NotGiven::Unaligned(4096));
    assert_eq!(given.slice(len, 0, 4096).unwrap().len(), 0);
    assert_eq!(given.slice(len - 512, 512, BLOCK).unwrap().len(), 512);
    file.write_all_at(b"begins here", 4096).unwrap();
    let mut found = [0; 11];
    given.slice(0, 512, BLOCK).unwrap().slice(0..11).copy_to(&mut found);
    assert_eq!(&found, b"begins here");
}

pub(crate) fn given_memory_ends_with_its_last_operation<W: World>(stage: &Stage<W>) {
    let (io, member) = (&stage.io, stage.world.member(1 << 20));
    io.block_on(async {
        let file = memory(ARENA);
        let given = give(stage, &file, Pages::Stay);
        let mut group = io.group();
        group.read(member, 0, &given.slice(512, 64 << 10, BLOCK).unwrap());
        drop((group.submit(), given));
        assert_eq!((io.in_flight(), io.arenas()), (1, 1), "nobody waits, but a device has the memory");
        assert!(is_mapped(&file));
        while io.in_flight() > 0 {
            io.sleep(Duration::from_micros(100)).await;
        }
        assert_eq!(io.arenas(), 0);
        wait_for_pages(&file);
    });
}

pub(crate) fn given_memory_comes_and_goes<W: World>(stage: &Stage<W>) {
    let (io, member) = (&stage.io, stage.world.member(1 << 20));
    let file = memory(ARENA);
    for round in 0..200u64 {
        file.write_all_at(&[round as u8; PAGE], 0).unwrap();
        let given = give(stage, &file, Pages::Stay);
        let mut group = io.group();
        group.write(member, 0, &given.slice(0, PAGE, BLOCK).unwrap(), false);
        io.block_on(group.submit()).ok().unwrap();
        let back = stage.pool.try_alloc(PAGE).unwrap();
        let mut group = io.group();
        group.read(member, 0, &back.all());
        io.block_on(group.submit()).ok().unwrap();
        assert!(back.bytes().iter().all(|&byte| byte == round as u8), "round {round}");
        assert_eq!(io.arenas(), 2, "round {round}");
    }
    wait_for_pages(&file);
}

/// Bytes of a connection come from such memory, and go to it.
pub(crate) fn given_memory_is_sent_and_received<W: World>(stage: &Stage<W>) {
    let io = &stage.io;
    let file = memory(ARENA);
    let given = give(stage, &file, Pages::MayGo);
    let put: Vec<u8> = (0..PAGE as u32).map(|at| (at % 253) as u8).collect();
    file.write_all_at(&put, 512).unwrap();
    let listener = stage.world.listen();
    let client = stage.world.connect(listener);
    io.block_on(async {
        let server = io.accept(listener).await.unwrap();
        io.send(client, &[given.slice(512, PAGE, BLOCK).unwrap()]).await.unwrap();
        let mut into = given.slice(1 << 20, PAGE, BLOCK).unwrap();
        while !into.is_empty() {
            let got = io.recv(server, &into).await.unwrap();
            assert!(got > 0);
            into = into.slice(got..into.len());
        }
        io.close(client);
        io.close(server);
        io.close(listener);
    });
    assert!(bytes_of(&file, 1 << 20, PAGE) == put);
}

/// Memory of an operation that was given up may still change. Its slices are marked as pinned, those and no others, and
/// the memory stays mapped.
pub(crate) fn given_memory_of_a_forsaken_member_stays<W: AtCommand>(stage: &Stage<W>) {
    let io = &stage.io;
    let (hung, member) =
        (stage.world.member_of_blocks(1 << 20, BLOCK), stage.world.member_of_blocks(1 << 20, BLOCK));
    let file = memory(ARENA);
    file.write_all_at(&[1; 8192], 0).unwrap();
    let given = give(stage, &file, Pages::Stay);
    let (into, beside) = (given.slice(4096, 512, BLOCK).unwrap(), given.slice(4608, 512, BLOCK).unwrap());
    stage.world.hang(hung);
    io.block_on(async {
        let mut group = io.group();
        group.read(hung, 0, &into);
        let pending = group.submit();
        io.yield_now().await;
        io.forsake(hung);
        pending.await.ok().unwrap_err();
        assert!(into.is_pinned() && !beside.is_pinned() && given.slice(0, 8192, BLOCK).unwrap().is_pinned());
        // A guest may ask for the same again, and for what is beside it.
        let mut group = io.group();
        group.read(member, 0, &given.slice(4096, 1024, BLOCK).unwrap());
        group.submit().await.ok().unwrap();
        into.put(0, &[7; 512]);
        drop((into, beside, given));
        assert!(is_mapped(&file));
        stage.world.release(hung);
        io.orphans_ended(hung).await;
    });
    wait_for_pages(&file);
    assert_eq!(io.arenas(), 0);
    assert!(bytes_of(&file, 4096, 512).iter().all(|&byte| byte == 0), "the late answer");
}
