package com.github.redissongo.peer;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RRateLimiter;

/**
 * Threads that ask for permits until the time is over, and the moments of every grant, so that a suite can check the rate
 * over grants of Java and of Go together. Moments are wall clock, the only clock that two processes share.
 */
final class Hammer {
    private final List<RRateLimiter> limiters;
    private final int threads;
    private final long permits;
    private final long duration; // ms
    private final Long timeout; // ms, or null: not a timed call
    private final long pause; // ms between a refused untimed call and the next
    private final CyclicBarrier start;
    private volatile long end; // nanoTime, set when the last thread has arrived

    Hammer(Clients clients, Request request) {
        limiters = clients.limiters(request);
        threads = Team.size(request);
        permits = request.integer("permits");
        duration = request.integer("duration");
        timeout = request.has("timeout") ? request.integer("timeout") : null;
        pause = request.integer("pause", 1);
        start = new CyclicBarrier(threads, () -> end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(duration));
    }

    Object run() throws Exception {
        List<Callable<List<long[]>>> members = new ArrayList<>();
        for (int i = 0; i < threads; i++) {
            RRateLimiter limiter = limiters.get(i % limiters.size());
            members.add(() -> hammer(limiter));
        }
        return result(Team.run(members));
    }

    /** A grant counts even if it comes after the end: its permits are taken, and a suite must know of them. */
    private List<long[]> hammer(RRateLimiter limiter) throws Exception {
        List<long[]> grants = new ArrayList<>();
        start.await();
        while (System.nanoTime() - end < 0) {
            long before = System.currentTimeMillis();
            if (tryAcquire(limiter)) {
                grants.add(new long[] {before, System.currentTimeMillis()});
            } else if (timeout == null) {
                Thread.sleep(pause); // or refused threads would only occupy the server
            }
        }
        return grants;
    }

    private boolean tryAcquire(RRateLimiter limiter) {
        return timeout == null ? limiter.tryAcquire(permits) : limiter.tryAcquire(permits, timeout, TimeUnit.MILLISECONDS);
    }

    private static Map<String, Object> result(List<List<long[]>> ofThreads) {
        List<long[]> grants = new ArrayList<>();
        ofThreads.forEach(grants::addAll);
        grants.sort(Comparator.comparingLong(grant -> grant[0]));
        return Map.of("grants", grants);
    }
}
