/*
 * Sends the requests of one cell to an array of md's, directly, and prints the KiB that each member has read and written for them.
 *
 * cells ARRAY read|write sequential|random SIZE COUNT DEPTH MEMBER...
 *
 * SIZE in bytes. Request n, from 0, lies at block n of that size, or at a block that `place` draws; after the last comes the first.
 * MEMBER is a name in /sys/block. An array to be written to is written to at its end before the count begins: the superblock that says so
 * comes first, and where `safe_mode_delay` is 0 none comes after it.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/fs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MOST 64

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

/* KiB that a member has read and written. */
static void counted(const char *member, long kib[2])
{
    char path[64];
    long value[8] = { 0 };
    snprintf(path, sizeof path, "/sys/block/%s/stat", member);
    FILE *file = fopen(path, "r");
    if (!file)
        fail(path);
    for (int i = 0; i < 8; i++)
        if (fscanf(file, "%ld", &value[i]) != 1)
            fail(path);
    fclose(file);
    kib[0] = value[2] / 2;
    kib[1] = value[6] / 2;
}

static uint32_t place(uint32_t n)
{
    uint32_t x = (n + 1) * 0x9e3779b1u;
    x ^= x >> 15;
    x *= 0x85ebca77u;
    return x ^ x >> 13;
}

int main(int argc, char **argv)
{
    if (argc < 8 || argc - 7 > MOST)
        return 2;
    int writes = argv[2][0] == 'w', random = argv[3][0] == 'r';
    long size = atol(argv[4]), count = atol(argv[5]), depth = atol(argv[6]);
    int members = argc - 7;
    long before[MOST][2], after[MOST][2];
    uint64_t bytes;
    int array = open(argv[1], O_RDWR | O_DIRECT);
    if (array < 0 || ioctl(array, BLKGETSIZE64, &bytes) < 0)
        fail(argv[1]);
    uint32_t blocks = bytes / size;
    void *memory;
    /* In one piece, for otherwise what a member takes at once has as many pieces as pages, and is cut by their number. */
    memory = mmap(NULL, 2 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
    if (memory == MAP_FAILED)
        fail("memory in one piece (/proc/sys/vm/nr_hugepages)");
    memset(memory, 'b', size);
    if (writes && pwrite(array, memory, 4096, (bytes & ~4095ull) - 4096) != 4096)
        fail("the last block");
    for (int i = 0; i < members; i++)
        counted(argv[7 + i], before[i]);

    aio_context_t context = 0;
    if (depth > 1 && syscall(SYS_io_setup, depth, &context))
        fail("io_setup");
    long sent = 0, done = 0;
    while (done < count) {
        uint64_t at = (uint64_t)((random ? place(sent) : (uint32_t)sent) % blocks) * size;
        if (depth == 1) {
            long moved = writes ? pwrite(array, memory, size, at) : pread(array, memory, size, at);
            if (moved != size)
                fail("a request");
            sent++, done++;
            continue;
        }
        if (sent < count && sent - done < depth) {
            struct iocb request = {
                .aio_fildes = array, .aio_lio_opcode = writes ? IOCB_CMD_PWRITE : IOCB_CMD_PREAD,
                .aio_buf = (uintptr_t)memory, .aio_nbytes = size, .aio_offset = at,
            };
            struct iocb *requests[] = { &request };
            if (syscall(SYS_io_submit, context, 1, requests) != 1)
                fail("io_submit");
            sent++;
            continue;
        }
        struct io_event events[64];
        long ended = syscall(SYS_io_getevents, context, 1, 64, events, NULL);
        for (long i = 0; i < ended; i++)
            if (events[i].res != size)
                fail("a request");
        if (ended < 1)
            fail("io_getevents");
        done += ended;
    }
    for (int i = 0; i < members; i++)
        counted(argv[7 + i], after[i]);
    for (int kind = 0; kind < 2; kind++)
        for (int i = 0; i < members; i++)
            printf("%ld%c", after[i][kind] - before[i][kind], i + 1 < members ? '+' : kind ? '\n' : ',');
    return 0;
}
