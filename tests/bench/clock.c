/* Starts programs and tells when, so that the time of a process of the
 * benchmark's own language is in no figure.
 *
 * A line on standard input is a request, its words parted by tabs; a line on
 * standard output answers it, in nanoseconds of CLOCK_MONOTONIC:
 *
 *   r N PROGRAM...   runs it, reads N stamps:  START END STATUS STAMP... PRINTED
 *   d 0 PROGRAM...   the same, with its output read through a pipe
 *   b 0 PROGRAM...   starts it in the background: its PID
 *   w N              waits for what was started last: 0 END STATUS STAMP...
 *   s N              N stamps:                   0 0 0 STAMP...
 *
 * PRINTED is the first word that the program printed. */

#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * UINT64_C(1000000000) + time.tv_nsec;
}

static pid_t start(char **words, int output)
{
    pid_t pid = -1;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, output, 1);
    if (posix_spawn(&pid, words[0], &actions, NULL, words, environ))
        exit(1);
    posix_spawn_file_actions_destroy(&actions);
    return pid;
}

int main(void)
{
    static char line[65536], drained[1 << 20];
    char *words[256], printed[256];
    int stamps = open(getenv("NBS_BENCH_STAMPS"), O_RDWR | O_CLOEXEC);
    int file = memfd_create("printed", MFD_CLOEXEC);
    pid_t pid = -1;
    while (fgets(line, sizeof line, stdin)) {
        size_t count = 0;
        line[strcspn(line, "\n")] = 0;
        for (char *word = strtok(line, "\t"); word && count < 255; word = strtok(NULL, "\t"))
            words[count++] = word;
        words[count] = NULL;
        char what = words[0][0];
        uint64_t from = 0, to = 0;
        int status = 0;
        if (what == 'r' || what == 'b')
            ftruncate(file, 0), lseek(file, 0, SEEK_SET);
        if (what == 'd') {
            int ends[2];
            if (pipe2(ends, O_CLOEXEC))
                return 1;
            from = now();
            pid = start(words + 2, ends[1]);
            close(ends[1]);
            while (read(ends[0], drained, sizeof drained) > 0)
                ;
            close(ends[0]);
        } else if (what == 'r' || what == 'b') {
            from = now();
            pid = start(words + 2, file);
        }
        if (what == 'b') {
            printf("%d\n", pid);
            fflush(stdout);
            continue;
        }
        if (what != 's') {
            waitpid(pid, &status, 0);
            to = now();
        }
        printf("%llu\t%llu\t%d", (unsigned long long)from, (unsigned long long)to, status);
        /* What has failed leaves none. */
        for (long left = status ? 0 : atol(words[1]); left > 0; left--) {
            uint64_t stamp;
            if (read(stamps, &stamp, sizeof stamp) != sizeof stamp)
                return 1;
            printf("\t%llu", (unsigned long long)stamp);
        }
        ssize_t length = pread(file, printed, sizeof printed - 1, 0);
        printed[length < 0 ? 0 : length] = 0;
        printed[strcspn(printed, " \t\n")] = 0;
        printf("\t%s\n", what == 'r' ? printed : "");
        fflush(stdout);
    }
    return 0;
}
