package com.github.redissongo.peer;

import java.time.Duration;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RRateLimiter;
import org.redisson.api.RateIntervalUnit;
import org.redisson.api.RateLimiterConfig;
import org.redisson.api.RateType;

/** The methods of RRateLimiter, each under its own name. */
final class LimiterOps {
    private final Clients clients;
    private final Map<String, Op> table = new HashMap<>();

    LimiterOps(Clients clients) {
        this.clients = clients;
        addRates();
        addPermits();
        addKeys();
        addExpiry();
    }

    Map<String, Op> table() {
        return table;
    }

    /** A method of the limiter with a result. */
    private interface Asked {
        Object run(RRateLimiter limiter, Request request) throws Exception;
    }

    /** A method of the limiter without a result; the answer is null. */
    private interface Done {
        void run(RRateLimiter limiter, Request request) throws Exception;
    }

    private void ask(String op, Asked method) {
        table.put(op, request -> method.run(clients.limiter(request), request));
    }

    private void does(String op, Done method) {
        ask(op, (limiter, request) -> {
            method.run(limiter, request);
            return null;
        });
    }

    /** updateRate is there since 4.4.0; so are the RateLimiterArgs that setRate takes with keepState. */
    private void addRates() {
        ask("trySetRate", LimiterOps::trySetRate);
        does("setRate", LimiterOps::setRate);
        ask("updateRate", (limiter, request) -> NewerApi.call(limiter, "updateRate", rateArgs(request)));
        ask("getConfig", (limiter, request) -> config(limiter.getConfig()));
    }

    /** release is there since 3.52.0. */
    private void addPermits() {
        ask("tryAcquire", LimiterOps::tryAcquire);
        does("acquire", (limiter, request) -> limiter.acquire(request.integer("permits")));
        does("release", (limiter, request) -> NewerApi.call(limiter, "release", request.integer("permits")));
        ask("availablePermits", (limiter, request) -> limiter.availablePermits());
    }

    /** isExists and rename touch only the hash of a limiter, not its other keys. */
    private void addKeys() {
        ask("isExists", (limiter, request) -> limiter.isExists());
        ask("delete", (limiter, request) -> limiter.delete());
        does("rename", (limiter, request) -> limiter.rename(request.text("newName")));
    }

    /** The expireIf family and getExpireTime are there since 3.17.0, and need a server 7.0. */
    private void addExpiry() {
        ask("expire", (limiter, request) -> limiter.expire(request.integer("ttl"), TimeUnit.MILLISECONDS));
        ask("expireAt", (limiter, request) -> limiter.expireAt(request.integer("at")));
        for (String op : new String[] {"expireIfSet", "expireIfNotSet", "expireIfGreater", "expireIfLess"}) {
            ask(op, (limiter, request) -> NewerApi.call(limiter, op, millis(request, "ttl")));
        }
        ask("clearExpire", (limiter, request) -> limiter.clearExpire());
        ask("remainTimeToLive", (limiter, request) -> limiter.remainTimeToLive());
        ask("getExpireTime", (limiter, request) -> NewerApi.call(limiter, "getExpireTime"));
    }

    /** Without keepAlive the method that every release has; with it the one since 3.37.0. */
    private static Object trySetRate(RRateLimiter limiter, Request request) throws Exception {
        RateType type = type(request);
        long rate = request.integer("rate");
        long interval = request.integer("interval");
        if (request.has("keepAlive")) {
            return NewerApi.call(limiter, "trySetRate", type, rate, Duration.ofMillis(interval), millis(request, "keepAlive"));
        }
        return limiter.trySetRate(type, rate, interval, RateIntervalUnit.MILLISECONDS);
    }

    /** As trySetRate; keepState, true or false, asks for the method that takes RateLimiterArgs. */
    private static void setRate(RRateLimiter limiter, Request request) throws Exception {
        RateType type = type(request);
        long rate = request.integer("rate");
        long interval = request.integer("interval");
        if (request.has("keepState")) {
            NewerApi.call(limiter, "setRate", rateArgs(request));
        } else if (request.has("keepAlive")) {
            NewerApi.call(limiter, "setRate", type, rate, Duration.ofMillis(interval), millis(request, "keepAlive"));
        } else {
            limiter.setRate(type, rate, interval, RateIntervalUnit.MILLISECONDS);
        }
    }

    /** No timeout and a timeout of 0 are different methods, so they stay apart here. */
    private static Object tryAcquire(RRateLimiter limiter, Request request) {
        long permits = request.integer("permits");
        return request.has("timeout")
                ? limiter.tryAcquire(permits, request.integer("timeout"), TimeUnit.MILLISECONDS)
                : limiter.tryAcquire(permits);
    }

    /** keepAlive 0 is Redisson's own default, so absent and 0 are the same here. */
    private static Object rateArgs(Request request) throws Exception {
        Duration keepAlive = Duration.ofMillis(request.integer("keepAlive", 0));
        return NewerApi.rateArgs(type(request), request.integer("rate"), millis(request, "interval"), keepAlive,
                request.flag("keepState"));
    }

    private static Map<String, Object> config(RateLimiterConfig config) {
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("type", config.getRateType());
        result.put("rate", config.getRate());
        result.put("interval", config.getRateInterval());
        return result;
    }

    private static RateType type(Request request) {
        return RateType.valueOf(request.text("type"));
    }

    private static Duration millis(Request request, String name) {
        return Duration.ofMillis(request.integer(name));
    }
}
