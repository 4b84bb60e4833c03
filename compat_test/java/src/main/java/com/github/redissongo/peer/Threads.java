package com.github.redissongo.peer;

import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/** Threads by the names that the suite gave them: only the thread that has locked a lock can unlock it. */
final class Threads {
    private final Map<String, Named> threads = new ConcurrentHashMap<>();

    /** Runs the call on the request's "thread", which exists from its first use on, and waits for the outcome. */
    <T> T run(Request request, Callable<T> call) throws Exception {
        return find(request).executor.submit(call).get();
    }

    /** The id by which Redisson knows the request's "thread". */
    long id(Request request) {
        return find(request).thread.getId();
    }

    /** Interrupts what the request's "thread" does. If it does nothing, the interrupt is forgotten. */
    Object interrupt(Request request) {
        find(request).thread.interrupt();
        return null;
    }

    /** The methods that the request's "thread" is in, the innermost first. */
    Object frames(Request request) {
        return Arrays.stream(find(request).thread.getStackTrace())
                .map(frame -> frame.getClassName() + "." + frame.getMethodName())
                .toList();
    }

    private Named find(Request request) {
        return threads.computeIfAbsent(request.text("thread"), name -> new Named());
    }

    /** One thread, which lives as long as the peer and does one call at a time. */
    private static final class Named {
        private final ThreadPoolExecutor executor =
                new ThreadPoolExecutor(1, 1, 0, TimeUnit.MILLISECONDS, new LinkedBlockingQueue<>(), this::create);
        private volatile Thread thread;

        private Named() {
            executor.prestartCoreThread();
        }

        private Thread create(Runnable work) {
            thread = new Thread(work);
            thread.setDaemon(true);
            return thread;
        }
    }
}
