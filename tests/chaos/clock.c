/* Moves the wall clock of a process by the seconds that the file CHAOS_CLOCK holds; for LD_PRELOAD.
 *
 * libfaketime 0.9.10 makes every sleep of Python 3.11 fail (its clock_nanosleep answers EINVAL to
 * an absolute monotonic time), so it cannot be used here. Only the wall clock
 * is moved; monotonic clocks and times of files stay as they are.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long moved(void)
{
    char text[32] = {0};
    const char *path = getenv("CHAOS_CLOCK");
    int fd = path ? (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return 0;
    long got = syscall(SYS_read, fd, text, sizeof text - 1);
    syscall(SYS_close, fd);
    return got > 0 ? strtol(text, NULL, 10) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *at)
{
    int result = (int)syscall(SYS_clock_gettime, clock, at);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        at->tv_sec += moved();
    return result;
}

int gettimeofday(struct timeval *at, void *zone)
{
    int result = (int)syscall(SYS_gettimeofday, at, zone);
    if (result == 0)
        at->tv_sec += moved();
    return result;
}

time_t time(time_t *at)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at)
        *at = now.tv_sec;
    return now.tv_sec;
}
