package com.github.redissongo.peer;

import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RAtomicLong;
import org.redisson.api.RLock;

/**
 * Threads that take one lock in turns. Each round reads a counter and writes it back one higher, by GET and SET: if two were
 * inside at once, the counter ends below the number of rounds. An exception is counted, and the thread goes on.
 */
final class LockCrowd {
    private static final long REST_MILLIS = 10; // after an exception

    private final List<RLock> locks;
    private final List<RAtomicLong> counters;
    private final int threads;
    private final long rounds; // of each thread
    private final Long lease; // ms, or null: renewed by the watchdog
    private final CyclicBarrier start;
    private volatile long begin; // nanoTime, set when the last thread has arrived

    LockCrowd(Clients clients, Locks known, Request request) throws Exception {
        locks = known.all(request);
        String counter = request.text("counter");
        counters = clients.all(request).stream().map(client -> client.getAtomicLong(counter)).toList();
        threads = Team.size(request);
        rounds = request.integer("rounds");
        lease = request.has("lease") ? request.integer("lease") : null;
        start = new CyclicBarrier(threads, () -> begin = System.nanoTime());
    }

    /** What one thread saw. */
    private static final class Tally {
        private final Histogram waits = new Histogram();
        private final List<long[]> holds = new ArrayList<>();
        private final Map<String, Integer> errors = new TreeMap<>();
        private long rounds;
    }

    Object run() throws Exception {
        List<Callable<Tally>> members = new ArrayList<>();
        for (int i = 0; i < threads; i++) {
            RLock lock = locks.get(i % locks.size());
            RAtomicLong counter = counters.get(i % counters.size());
            members.add(() -> member(lock, counter));
        }
        List<Tally> tallies = Team.run(members);
        return result(tallies, (System.nanoTime() - begin) / 1e9);
    }

    private Tally member(RLock lock, RAtomicLong counter) throws Exception {
        Tally tally = new Tally();
        start.await();
        for (long i = 0; i < rounds; i++) {
            try {
                round(lock, counter, tally);
                tally.rounds++;
            } catch (RuntimeException e) {
                tally.errors.merge(e.getClass().getSimpleName(), 1, Integer::sum);
                Thread.sleep(REST_MILLIS);
            }
        }
        return tally;
    }

    /** RAtomicLong sends the plain commands, and a GET to the master. */
    private void round(RLock lock, RAtomicLong counter, Tally tally) {
        long before = System.nanoTime();
        if (lease == null) {
            lock.lock();
        } else {
            lock.lock(lease, TimeUnit.MILLISECONDS);
        }
        tally.waits.add(System.nanoTime() - before);
        long from = micros();
        try {
            counter.set(counter.get() + 1);
        } finally {
            tally.holds.add(new long[] {from, micros()});
            lock.unlock();
        }
    }

    /** Wall clock, the only one that two processes share. */
    private static long micros() {
        return ChronoUnit.MICROS.between(Instant.EPOCH, Instant.now());
    }

    private static Map<String, Object> result(List<Tally> tallies, double seconds) {
        Tally all = new Tally();
        for (Tally tally : tallies) {
            all.waits.add(tally.waits);
            all.holds.addAll(tally.holds);
            all.rounds += tally.rounds;
            tally.errors.forEach((name, count) -> all.errors.merge(name, count, Integer::sum));
        }
        all.holds.sort(Comparator.comparingLong(hold -> hold[0]));
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("rounds", all.rounds);
        result.put("errors", all.errors);
        result.put("holds", all.holds);
        result.put("seconds", seconds);
        result.put("perSecond", seconds > 0 ? all.rounds / seconds : 0);
        result.put("p50us", all.waits.quantile(0.50) / 1e3);
        result.put("p99us", all.waits.quantile(0.99) / 1e3);
        result.put("p999us", all.waits.quantile(0.999) / 1e3);
        return result;
    }
}
