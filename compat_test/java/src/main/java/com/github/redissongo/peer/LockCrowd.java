package com.github.redissongo.peer;

import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.CyclicBarrier;
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
    private final CyclicBarrier start;

    LockCrowd(Clients clients, Locks known, Request request) throws Exception {
        locks = known.all(request);
        String counter = request.text("counter");
        counters = clients.all(request).stream().map(client -> client.getAtomicLong(counter)).toList();
        threads = Team.size(request);
        rounds = request.integer("rounds");
        start = new CyclicBarrier(threads);
    }

    /** What one thread saw. */
    private static final class Tally {
        private final List<long[]> holds = new ArrayList<>();
        private final Map<String, Integer> errors = new TreeMap<>();
    }

    Object run() throws Exception {
        List<Callable<Tally>> members = new ArrayList<>();
        for (int i = 0; i < threads; i++) {
            RLock lock = locks.get(i % locks.size());
            RAtomicLong counter = counters.get(i % counters.size());
            members.add(() -> member(lock, counter));
        }
        return result(Team.run(members));
    }

    private Tally member(RLock lock, RAtomicLong counter) throws Exception {
        Tally tally = new Tally();
        start.await();
        for (long i = 0; i < rounds; i++) {
            try {
                round(lock, counter, tally);
            } catch (RuntimeException e) {
                tally.errors.merge(e.getClass().getSimpleName(), 1, Integer::sum);
                Thread.sleep(REST_MILLIS);
            }
        }
        return tally;
    }

    /** RAtomicLong sends the plain commands, and a GET to the master. */
    private void round(RLock lock, RAtomicLong counter, Tally tally) {
        lock.lock();
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

    private static Map<String, Object> result(List<Tally> tallies) {
        Tally all = new Tally();
        for (Tally tally : tallies) {
            all.holds.addAll(tally.holds);
            tally.errors.forEach((name, count) -> all.errors.merge(name, count, Integer::sum));
        }
        all.holds.sort(Comparator.comparingLong(hold -> hold[0]));
        return Map.of("errors", all.errors, "holds", all.holds);
    }
}
