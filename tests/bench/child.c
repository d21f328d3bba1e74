/* The program that runs in every session that is measured: it tells the time,
 * by CLOCK_MONOTONIC in nanoseconds, 8 bytes into the FIFO $NBS_BENCH_STAMPS.
 *
 * It does so when it starts, and at each line that it reads; then it does what
 * the line says:
 *
 *   p TEXT   prints TEXT and a newline
 *   e TEXT   the same, where each ^ of TEXT is an escape and each _ a BEL
 *   f N      prints N MiB of text, and tells the time again when all is printed
 *   x A B... runs the program A with the arguments B...
 *
 * Called with `-` as its one argument it tells the time of a start and ends. */

#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

static int stamps;

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * UINT64_C(1000000000) + time.tv_nsec;
}

static void stamp(uint64_t time)
{
    write(stamps, &time, sizeof time);
}

static void print(const char *text, size_t length)
{
    while (length) {
        ssize_t count = write(1, text, length);
        if (count <= 0)
            _exit(1);
        text += count;
        length -= count;
    }
}

static void flood(long mebibytes)
{
    static char block[65536];
    for (size_t at = 0; at < sizeof block; at++)
        block[at] = at % 64 == 63 ? '\n' : 'a' + at % 26;
    for (long left = mebibytes * 16; left > 0; left--)
        print(block, sizeof block);
}

static void execute(char *line)
{
    char *words[16] = {0};
    int count = 0;
    for (char *word = strtok(line, " "); word && count < 15; word = strtok(NULL, " "))
        words[count++] = word;
    if (vfork() == 0) {
        execvp(words[0], words);
        _exit(127);
    }
    wait(NULL);
}

int main(int argc, char **argv)
{
    uint64_t time = now();
    const char *path = getenv("NBS_BENCH_STAMPS");
    stamps = path ? open(path, O_WRONLY | O_CLOEXEC) : -1;
    if (argc == 2 && !strcmp(argv[1], "-")) {
        stamp(time);
        return 0;
    }
    struct termios modes;
    if (tcgetattr(0, &modes) == 0) {
        modes.c_lflag &= ~(ICANON | ECHO);
        tcsetattr(0, TCSANOW, &modes);
    }
    stamp(time);
    char line[512];
    size_t length = 0;
    for (;;) {
        ssize_t count = read(0, line + length, sizeof line - 2 - length);
        time = now();
        if (count <= 0)
            return 0;
        length += count;
        if (line[length - 1] != '\n')
            continue;
        char first = line[0];
        if (first == 'e') {
            for (size_t at = 0; at < length; at++)
                line[at] = line[at] == '^' ? '\x1b' : line[at] == '_' ? '\a' : line[at];
        }
        if (first == 'p' || first == 'e') {
            /* The moment before the text is there. */
            time = now();
            print(line + 2, length - 2);
        }
        stamp(time);
        line[length - 1] = 0;
        if (first == 'f') {
            flood(atol(line + 2));
            stamp(now());
        }
        if (first == 'x')
            execute(line + 2);
        length = 0;
    }
}
