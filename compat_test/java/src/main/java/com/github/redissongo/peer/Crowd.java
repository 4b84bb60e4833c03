package com.github.redissongo.peer;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.redisson.api.RRateLimiter;

/**
 * Threads that ask for permits until they are stopped, whatever they get: an exception is counted, and the thread goes on.
 * So a suite can break Redis meanwhile. It takes the grants out while the threads work, with their moments (see Hammer).
 */
final class Crowd {
    /** How long a stop waits for calls under way. Redisson leaves some waiting for ever after a fault. */
    private static final long STOP_MILLIS = 3000;

    private static final Map<Long, Crowd> CROWDS = new ConcurrentHashMap<>();
    private static final AtomicLong LAST = new AtomicLong();

    private final long permits;
    private final Long timeout; // ms, or null: not a timed call
    private final long pause; // ms after a call that was not granted
    private final List<Thread> threads = new ArrayList<>();
    private volatile boolean stopped;

    private List<long[]> grants = new ArrayList<>(); // guarded by this, and so are errors
    private Map<String, Integer> errors = new TreeMap<>();

    private Crowd(Clients clients, Request request) {
        permits = request.integer("permits");
        timeout = request.has("timeout") ? request.integer("timeout") : null;
        pause = request.integer("pause", 1);
        List<RRateLimiter> limiters = clients.limiters(request);
        for (int i = 0; i < Team.size(request); i++) {
            int number = i;
            Thread thread = new Thread(() -> call(limiters.get(number % limiters.size()), number));
            thread.setDaemon(true);
            threads.add(thread);
        }
    }

    /** Starts the threads and returns the number by which they are drained and stopped. */
    static Object start(Clients clients, Request request) {
        Crowd crowd = new Crowd(clients, request);
        long id = LAST.incrementAndGet();
        CROWDS.put(id, crowd);
        crowd.threads.forEach(Thread::start);
        return id;
    }

    /** Returns what the threads got since the last time. */
    static Object drain(Request request) {
        return find(request).drain();
    }

    /** Ends the threads and returns the rest. One that does not end is interrupted, and counted. */
    static Object stop(Request request) throws InterruptedException {
        Crowd crowd = find(request);
        crowd.stopped = true;
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(STOP_MILLIS);
        long stuck = 0;
        for (Thread thread : crowd.threads) {
            thread.join(Math.max(1, TimeUnit.NANOSECONDS.toMillis(end - System.nanoTime())));
            if (thread.isAlive()) {
                thread.interrupt();
                stuck++;
            }
        }
        Map<String, Object> result = crowd.drain();
        result.put("stuck", stuck);
        CROWDS.values().remove(crowd);
        return result;
    }

    private static Crowd find(Request request) {
        Crowd crowd = CROWDS.get(request.integer("crowd"));
        if (crowd == null) {
            throw new IllegalArgumentException("unknown crowd: " + request.integer("crowd"));
        }
        return crowd;
    }

    private void call(RRateLimiter limiter, int number) {
        while (!stopped) {
            long before = System.currentTimeMillis();
            boolean granted = false;
            String error = null;
            try {
                granted = timeout == null ? limiter.tryAcquire(permits)
                        : limiter.tryAcquire(permits, timeout, TimeUnit.MILLISECONDS);
            } catch (RuntimeException e) {
                error = e.getClass().getSimpleName();
            }
            note(granted ? new long[] {before, System.currentTimeMillis(), number} : null, error);
            if (!granted && !rest(error == null ? pause : Math.max(pause, 10))) {
                return;
            }
        }
    }

    private synchronized void note(long[] grant, String error) {
        if (grant != null) {
            grants.add(grant);
        }
        if (error != null) {
            errors.merge(error, 1, Integer::sum);
        }
    }

    private static boolean rest(long millis) {
        try {
            Thread.sleep(millis);
            return true;
        } catch (InterruptedException e) {
            return false;
        }
    }

    private synchronized Map<String, Object> drain() {
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("grants", grants);
        result.put("errors", errors);
        grants = new ArrayList<>();
        errors = new TreeMap<>();
        return result;
    }
}
