/* The clock of a process that has this library preloaded goes by as many ms as the
   file $REDISTEST_CLOCK says, which another process may change. The monotonic clock
   stays as it is. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *ms;

__attribute__((constructor)) static void map_offset(void) {
	const char *path = getenv("REDISTEST_CLOCK");
	int fd = path ? open(path, O_RDONLY) : -1;
	if (fd < 0) return;
	void *at = mmap(0, sizeof *ms, PROT_READ, MAP_SHARED, fd, 0);
	if (at != MAP_FAILED) ms = at;
	close(fd);
}

int clock_gettime(clockid_t id, struct timespec *t) {
	int failed = syscall(SYS_clock_gettime, id, t);
	if (!failed && ms && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) {
		int64_t by = *ms, ns = t->tv_nsec + by % 1000 * 1000000;
		t->tv_sec += by / 1000 + ns / 1000000000;
		t->tv_nsec = ns % 1000000000;
		if (t->tv_nsec < 0) {
			t->tv_nsec += 1000000000;
			t->tv_sec--;
		}
	}
	return failed;
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone) {
	struct timespec t;
	(void)zone;
	if (clock_gettime(CLOCK_REALTIME, &t)) return -1;
	tv->tv_sec = t.tv_sec;
	tv->tv_usec = t.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *to) {
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	if (to) *to = t.tv_sec;
	return t.tv_sec;
}
