package com.github.redissongo.peer;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RRateLimiter;

/**
 * A benchmark of tryAcquire without a timeout: threads in a tight loop, first unmeasured for the warm-up, then measured.
 */
final class Loop {
    private final List<RRateLimiter> limiters;
    private final int threads;
    private final long permits;
    private final long duration; // ns
    private final long warmup; // ns
    private final CyclicBarrier together;
    private volatile long begin; // nanoTime of the current phase, set when the last thread has arrived

    Loop(Clients clients, Request request) {
        limiters = clients.limiters(request);
        threads = Team.size(request);
        permits = request.integer("permits");
        duration = nanos(request.integer("duration"));
        warmup = nanos(request.integer("warmup", 0));
        together = new CyclicBarrier(threads, () -> begin = System.nanoTime());
    }

    private static long nanos(long millis) {
        return TimeUnit.MILLISECONDS.toNanos(millis);
    }

    /** What one thread measured. */
    private record Tally(Histogram latencies, long granted, long end) {
    }

    Object run() throws Exception {
        List<Callable<Tally>> members = new ArrayList<>();
        for (int i = 0; i < threads; i++) {
            RRateLimiter limiter = limiters.get(i % limiters.size());
            members.add(() -> member(limiter));
        }
        return result(Team.run(members));
    }

    /** No thread measures while another one warms up. The clock starts when the last one is ready. */
    private Tally member(RRateLimiter limiter) throws Exception {
        together.await();
        measure(limiter, warmup);
        together.await();
        return measure(limiter, duration);
    }

    /** One clock reading per call: the end of a call is the start of the next. */
    private Tally measure(RRateLimiter limiter, long nanos) {
        Histogram latencies = new Histogram();
        long granted = 0;
        long now = System.nanoTime();
        while (now - begin < nanos) {
            long before = now;
            granted += limiter.tryAcquire(permits) ? 1 : 0;
            now = System.nanoTime();
            latencies.add(now - before);
        }
        return new Tally(latencies, granted, now);
    }

    private Map<String, Object> result(List<Tally> tallies) {
        Histogram all = new Histogram();
        long granted = 0;
        long end = begin;
        for (Tally tally : tallies) {
            all.add(tally.latencies);
            granted += tally.granted;
            end = Math.max(end, tally.end);
        }
        double seconds = (end - begin) / 1e9;
        return Map.of("granted", granted, "perSecond", seconds > 0 ? all.count() / seconds : 0,
                "p50us", all.quantile(0.50) / 1e3, "p99us", all.quantile(0.99) / 1e3);
    }
}
