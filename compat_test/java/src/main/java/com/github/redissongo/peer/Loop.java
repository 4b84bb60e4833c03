package com.github.redissongo.peer;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RRateLimiter;

/**
 * A benchmark of tryAcquire without a timeout: threads in a tight loop, first unmeasured for the warm-up, then measured for
 * a number of calls (all threads together) or for a time, whichever ends first.
 */
final class Loop {
    private final List<RRateLimiter> limiters;
    private final int threads;
    private final long permits;
    private final long count;
    private final long duration; // ns
    private final long warmup; // ns
    private final CyclicBarrier together;
    private volatile long begin; // nanoTime of the present phase, set when the last thread has arrived

    Loop(Clients clients, Request request) {
        limiters = clients.limiters(request);
        threads = Team.size(request);
        permits = request.integer("permits");
        if (!request.has("count") && !request.has("duration")) {
            throw new IllegalArgumentException("missing argument: count or duration");
        }
        count = request.integer("count", Long.MAX_VALUE);
        duration = nanos(request.integer("duration", Long.MAX_VALUE));
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
            long share = count / threads + (i < count % threads ? 1 : 0);
            members.add(() -> member(limiter, share));
        }
        return result(Team.run(members));
    }

    /** Nobody measures while another still warms up, and the clock starts when the last one is ready. */
    private Tally member(RRateLimiter limiter, long share) throws Exception {
        together.await();
        measure(limiter, Long.MAX_VALUE, warmup);
        together.await();
        return measure(limiter, share, duration);
    }

    /** One clock reading per call: the end of a call is the start of the next. */
    private Tally measure(RRateLimiter limiter, long calls, long nanos) {
        Histogram latencies = new Histogram();
        long granted = 0;
        long now = System.nanoTime();
        for (long done = 0; done < calls && now - begin < nanos; done++) {
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
        return result(all, granted, (end - begin) / 1e9);
    }

    private static Map<String, Object> result(Histogram all, long granted, double seconds) {
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("calls", all.count());
        result.put("granted", granted);
        result.put("seconds", seconds);
        result.put("perSecond", seconds > 0 ? all.count() / seconds : 0);
        result.put("p50us", all.quantile(0.50) / 1e3);
        result.put("p99us", all.quantile(0.99) / 1e3);
        result.put("p999us", all.quantile(0.999) / 1e3);
        return result;
    }
}
