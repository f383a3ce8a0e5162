/* Preloaded into ringfence by the tests: makes one call of the C library the one at which the process is killed or the disk is full, or turns the
   wall clock forth and back. It counts the calls by which something on disk changes, in the first process only: init has an empty environment, and
   the moment between fork and exec is the child's own.

   FAULT_KIND=kill  FAULT_AT=n: killed before call n.
   FAULT_KIND=full  FAULT_AT=n: from call n on, what would take room below FAULT_BELOW says that there is none.
   FAULT_KIND=count-kill or count-full: at its end the process writes the number of such calls to FAULT_COUNT.
   FAULT_KIND=clock: every second look at the wall clock is years back.
   FAULT_KIND=shift FAULT_AT=n: the wall clock is n seconds ahead. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

static const char *kind = "", *below = "", *count_file;
static long at = -1, calls, looks;
static pid_t first;

static pid_t self(void) { return syscall(SYS_getpid); }

__attribute__((constructor)) static void begin(void) {
    first = self();
    if (getenv("FAULT_KIND")) kind = getenv("FAULT_KIND");
    if (getenv("FAULT_AT")) at = atol(getenv("FAULT_AT"));
    if (getenv("FAULT_BELOW")) below = getenv("FAULT_BELOW");
    count_file = getenv("FAULT_COUNT");
}

__attribute__((destructor)) static void end(void) {
    char text[32];
    int length = snprintf(text, sizeof text, "%ld\n", calls), file;
    if (strncmp(kind, "count", 5) || self() != first) return;
    file = syscall(SYS_openat, AT_FDCWD, count_file, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    syscall(SYS_write, file, text, length);
}

static int is_below(const char *path) { return *below && !strncmp(path, below, strlen(below)); }

static int is_file_below(int file) {
    char link[64], path[4096];
    ssize_t length;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    length = syscall(SYS_readlink, link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return is_below(path);
}

/* True if this call fails for want of room. */
static int fails(int takes_room) {
    if (self() != first || !strcmp(kind, "clock") || !strcmp(kind, "shift")) return 0;
    if (strstr(kind, "full") && !takes_room) return 0;
    calls++;
    if (at < 0 || calls < at) return 0;
    if (!strcmp(kind, "kill")) {
        syscall(SYS_kill, first, SIGKILL);
        for (;;) pause();
    }
    errno = ENOSPC;
    return !strcmp(kind, "full");
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int file, const void *bytes, size_t length) { return fails(is_file_below(file)) ? -1 : REAL(write)(file, bytes, length); }
int fsync(int file) { return fails(is_file_below(file)) ? -1 : REAL(fsync)(file); }
int fdatasync(int file) { return fails(is_file_below(file)) ? -1 : REAL(fdatasync)(file); }
int mkdir(const char *path, mode_t mode) { return fails(is_below(path)) ? -1 : REAL(mkdir)(path, mode); }
int rename(const char *from, const char *to) { return fails(is_below(to)) ? -1 : REAL(rename)(from, to); }
int link(const char *from, const char *to) { return fails(is_below(to)) ? -1 : REAL(link)(from, to); }
int linkat(int a, const char *from, int b, const char *to, int flags) { return fails(is_below(to)) ? -1 : REAL(linkat)(a, from, b, to, flags); }
int unlink(const char *path) { return fails(0) ? -1 : REAL(unlink)(path); }
int unlinkat(int folder, const char *path, int flags) { return fails(0) ? -1 : REAL(unlinkat)(folder, path, flags); }
int rmdir(const char *path) { return fails(0) ? -1 : REAL(rmdir)(path); }
int ftruncate64(int file, off64_t length) { return fails(0) ? -1 : REAL(ftruncate64)(file, length); }

int open64(const char *path, int flags, ...) {
    va_list rest;
    mode_t mode;
    va_start(rest, flags);
    mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    if ((flags & O_CREAT) && fails(is_below(path))) return -1;
    return REAL(open64)(path, flags, mode);
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    int answer = syscall(SYS_clock_gettime, clock, time);
    if (!answer && clock == CLOCK_REALTIME && !strcmp(kind, "clock") && looks++ % 2) time->tv_sec -= 100000000;
    if (!answer && clock == CLOCK_REALTIME && !strcmp(kind, "shift")) time->tv_sec += at;
    return answer;
}
