package com.github.redissongo.peer;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletionService;
import java.util.concurrent.ExecutorCompletionService;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/** A number of threads at the same work. */
final class Team {
    private Team() {
    }

    /** The "threads" of a request. */
    static int size(Request request) {
        long threads = request.integer("threads");
        if (threads < 1) {
            throw new IllegalArgumentException("argument threads must be at least 1");
        }
        return Math.toIntExact(threads);
    }

    /**
     * Runs each member on a thread of its own and returns what they returned, in the order in which they ended. The first
     * exception ends the work: the others are interrupted, so none is left waiting for the one that failed.
     */
    static <T> List<T> run(List<? extends Callable<T>> members) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(members.size());
        CompletionService<T> done = new ExecutorCompletionService<>(pool);
        try {
            members.forEach(done::submit);
            List<T> results = new ArrayList<>();
            while (results.size() < members.size()) {
                results.add(done.take().get());
            }
            return results;
        } finally {
            pool.shutdownNow();
        }
    }
}
