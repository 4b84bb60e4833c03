package com.github.redissongo.peer;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
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
    private final long pause; // ms between a refused untimed call and the next; 0 spins
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

    /** What one thread saw. */
    private record Tally(List<long[]> grants, long calls) {
    }

    Object run() throws Exception {
        List<Callable<Tally>> members = new ArrayList<>();
        for (int i = 0; i < threads; i++) {
            RRateLimiter limiter = limiters.get(i % limiters.size());
            members.add(() -> hammer(limiter));
        }
        return result(Team.run(members));
    }

    /** A grant counts even if it comes after the end: its permits are taken, and a suite must know of them. */
    private Tally hammer(RRateLimiter limiter) throws Exception {
        List<long[]> grants = new ArrayList<>();
        long calls = 0;
        start.await();
        for (; System.nanoTime() - end < 0; calls++) {
            long before = System.currentTimeMillis();
            if (tryAcquire(limiter)) {
                grants.add(new long[] {before, System.currentTimeMillis()});
            } else if (timeout == null) {
                rest();
            }
        }
        return new Tally(grants, calls);
    }

    private boolean tryAcquire(RRateLimiter limiter) {
        return timeout == null ? limiter.tryAcquire(permits) : limiter.tryAcquire(permits, timeout, TimeUnit.MILLISECONDS);
    }

    /** Keeps refused threads from doing nothing but occupying the server. */
    private void rest() throws InterruptedException {
        if (pause > 0) {
            Thread.sleep(pause);
        } else {
            Thread.onSpinWait();
        }
    }

    private static Map<String, Object> result(List<Tally> tallies) {
        List<long[]> grants = new ArrayList<>();
        long calls = 0;
        for (Tally tally : tallies) {
            grants.addAll(tally.grants);
            calls += tally.calls;
        }
        grants.sort(Comparator.comparingLong(grant -> grant[0]));
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("grants", grants);
        result.put("calls", calls);
        return result;
    }
}
