/* Which instructions of a program are executed (ptrace(2)), step by step: thousands of times as slow.
 *
 * Usage: executed FILE FOLDER COMMAND [ARGUMENT...]
 *
 * Runs the command. Of each process of FILE that it starts, itself or by others, FOLDER gets a file with the
 * addresses that were executed, in hexadecimal, one in each line, each with the number of the step in which that
 * was first. FILE has its code at fixed addresses below 8 MiB. x86-64 only. */

#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST_PIDS 4194304
#define MOST 0x800000

static struct stat file;
static const char *folder;
/* By PID: is it known, and if it executes FILE, the first step at each address, or 0. */
static char known[MOST_PIDS];
static unsigned *executed[MOST_PIDS];
static unsigned steps;

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

/* Begins a process, or a program that it executes from now on. */
static void begin(int pid)
{
    char path[64];
    struct stat found;
    snprintf(path, sizeof path, "/proc/%d/exe", pid);
    known[pid] = 1;
    if (stat(path, &found) == 0 && found.st_ino == file.st_ino && found.st_dev == file.st_dev
        && !(executed[pid] = calloc(MOST, sizeof *executed[pid])))
        fail("memory");
}

static void end(int pid)
{
    static int count;
    char path[4096];
    if (!executed[pid])
        return;
    snprintf(path, sizeof path, "%s/%d", folder, count++);
    FILE *out = fopen(path, "w");
    if (!out)
        fail(path);
    for (unsigned long at = 0; at < MOST; at++)
        if (executed[pid][at])
            fprintf(out, "%lx %u\n", at, executed[pid][at]);
    if (fclose(out))
        fail(path);
    free(executed[pid]);
    executed[pid] = NULL;
}

int main(int count, char **words)
{
    int options = PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC
        | PTRACE_O_EXITKILL;
    if (count < 4)
        return 2;
    folder = words[2];
    if (stat(words[1], &file))
        fail(words[1]);
    int first = fork(), status;
    if (first == 0) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        raise(SIGSTOP);
        execvp(words[3], words + 3);
        _exit(127);
    }
    if (first < 0 || waitpid(first, &status, 0) < 0 || ptrace(PTRACE_SETOPTIONS, first, 0, options))
        fail("trace");
    known[first] = 1;
    ptrace(PTRACE_CONT, first, 0, 0);
    for (;;) {
        int pid = waitpid(-1, &status, __WALL);
        if (pid < 0 && errno == ECHILD)
            return 0;
        if (pid < 0)
            fail("wait");
        if (!WIFSTOPPED(status)) {
            end(pid);
            known[pid] = 0;
            continue;
        }
        int signal = WSTOPSIG(status), event = status >> 16;
        if (event == PTRACE_EVENT_EXEC) {
            end(pid);
            begin(pid);
        } else if (!known[pid]) {
            begin(pid);
        } else if (!event && signal == SIGTRAP && executed[pid]) {
            unsigned long at = ptrace(PTRACE_PEEKUSER, pid, offsetof(struct user_regs_struct, rip), 0);
            steps++;
            if (at < MOST && !executed[pid][at])
                executed[pid][at] = steps;
        } else if (!event) {
            /* A process that has gone meanwhile reports its end. */
            ptrace(executed[pid] ? PTRACE_SINGLESTEP : PTRACE_CONT, pid, 0, signal);
            continue;
        }
        ptrace(executed[pid] ? PTRACE_SINGLESTEP : PTRACE_CONT, pid, 0, 0);
    }
}
