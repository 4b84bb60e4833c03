package com.github.redissongo.peer;

import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RLock;

/** The methods of RLock and RFencedLock, each under "lock." and its own name. */
final class LockOps {
    private static final TimeUnit MS = TimeUnit.MILLISECONDS;

    private final Clients clients;
    private final Locks locks;
    private final Threads threads = new Threads();
    private final Map<String, Op> table = new HashMap<>();

    LockOps(Clients clients, Locks locks) {
        this.clients = clients;
        this.locks = locks;
        addLocking();
        addTokens();
        addUnlocking();
        addLooks();
        table.put("thread.interrupt", threads::interrupt);
        table.put("thread.frames", threads::frames);
    }

    Map<String, Op> table() {
        return table;
    }

    /** A method of the lock. */
    private interface Asked {
        Object run(RLock lock, Request request) throws Exception;
    }

    /** A method of the lock without a result; the answer is null. */
    private interface Done {
        void run(RLock lock, Request request) throws Exception;
    }

    /** A method that is the same on every thread. */
    private void ask(String op, Asked method) {
        table.put("lock." + op, request -> method.run(locks.one(request), request));
    }

    /** A method that is about the thread that calls it. */
    private void askOnThread(String op, Asked method) {
        ask(op, (lock, request) -> threads.run(request, () -> method.run(lock, request)));
    }

    private void doesOnThread(String op, Done method) {
        askOnThread(op, (lock, request) -> {
            method.run(lock, request);
            return null;
        });
    }

    private void addLocking() {
        doesOnThread("lock", LockOps::lock);
        doesOnThread("lockInterruptibly", (lock, request) -> lock.lockInterruptibly());
        askOnThread("tryLock", LockOps::tryLock);
        askOnThread("tryLockAsync", (lock, request) -> lock
                .tryLockAsync(request.integer("wait"), request.integer("lease"), MS).toCompletableFuture().get());
    }

    /** RFencedLock is there since 3.19.0. */
    private void addTokens() {
        askOnThread("lockAndGetToken", (lock, request) -> NewerApi.callFenced(lock, "lockAndGetToken"));
        ask("getToken", (lock, request) -> NewerApi.callFenced(lock, "getToken"));
    }

    private void addUnlocking() {
        doesOnThread("unlock", (lock, request) -> lock.unlock());
        ask("forceUnlock", (lock, request) -> lock.forceUnlock());
    }

    private void addLooks() {
        ask("isLocked", (lock, request) -> lock.isLocked());
        askOnThread("isHeldByCurrentThread", (lock, request) -> lock.isHeldByCurrentThread());
        askOnThread("getHoldCount", (lock, request) -> lock.getHoldCount());
        ask("remainTimeToLive", (lock, request) -> lock.remainTimeToLive());
        ask("owner", (lock, request) -> clients.one(request).getId() + ":" + threads.id(request));
    }

    private static void lock(RLock lock, Request request) {
        if (request.has("lease")) {
            lock.lock(request.integer("lease"), MS);
        } else {
            lock.lock();
        }
    }

    /** No wait and a wait of 0 are different methods, so they stay apart here. */
    private static Object tryLock(RLock lock, Request request) throws InterruptedException {
        if (request.has("lease")) {
            return lock.tryLock(request.integer("wait"), request.integer("lease"), MS);
        }
        return request.has("wait") ? lock.tryLock(request.integer("wait"), MS) : lock.tryLock();
    }
}
