package com.github.redissongo.peer;

import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.redisson.Redisson;
import org.redisson.api.RRateLimiter;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.BaseConfig;
import org.redisson.config.ClusterServersConfig;
import org.redisson.config.Config;
import org.redisson.config.SentinelServersConfig;
import org.redisson.config.SingleServerConfig;

/** The Redisson instances by the names that the suite gave them; each has an id of its own, as if it were a process. */
final class Clients {
    /** Threads per instance: enough for a hammer, few enough that an instance starts quickly. */
    private static final int THREADS = 4;

    /** How often an instance asks for the nodes: soon after a failover; the default is 5 s, and 1 s for a Sentinel. */
    private static final int SCAN_MS = 500;

    private final Map<String, RedissonClient> clients = new ConcurrentHashMap<>();

    /** Creates an instance and returns its id, the one in the keys of PER_CLIENT limiters. */
    Object connect(Request request) throws Exception {
        String client = request.text("client");
        RedissonClient created = Redisson.create(config(request));
        if (clients.putIfAbsent(client, created) != null) {
            created.shutdown();
            throw new IllegalStateException("client is already connected: " + client);
        }
        return created.getId();
    }

    /** Shuts an instance down. A call of it that waits for permits is not woken: Redisson leaves it waiting for ever. */
    Object disconnect(Request request) {
        RedissonClient client = one(request);
        clients.values().remove(client);
        client.shutdown();
        return null;
    }

    /** Shuts all instances down, side by side: one may take two seconds. */
    void close() {
        clients.values().parallelStream().forEach(RedissonClient::shutdown);
        clients.clear();
    }

    /** The limiter that the request is about; a new object each time, so a rename is forgotten by the next request. */
    RRateLimiter limiter(Request request) {
        return one(request).getRateLimiter(request.text("name"));
    }

    /** The limiter as each of the request's "clients" sees it, or its one "client". */
    List<RRateLimiter> limiters(Request request) {
        String name = request.text("name");
        return all(request).stream().map(client -> client.getRateLimiter(name)).toList();
    }

    /** The request's "clients", or its one "client". */
    List<RedissonClient> all(Request request) {
        List<String> names = request.has("clients") ? request.texts("clients") : List.of(request.text("client"));
        return names.stream().map(this::find).toList();
    }

    /** The request's "client". */
    RedissonClient one(Request request) {
        return find(request.text("client"));
    }

    private RedissonClient find(String name) {
        RedissonClient client = clients.get(name);
        if (client == null) {
            throw new IllegalArgumentException("unknown client: " + name);
        }
        return client;
    }

    /** Settings that the request does not name keep Redisson's defaults, which a suite may test. */
    private static Config config(Request request) throws Exception {
        // The limiter uses no codec, and the default ones of old releases do not start on Java 17.
        Config config = new Config().setThreads(THREADS).setNettyThreads(THREADS).setCodec(StringCodec.INSTANCE);
        BaseConfig<?> mode = mode(config, request);
        if (request.has("timeout")) {
            mode.setTimeout(Math.toIntExact(request.integer("timeout")));
        }
        if (request.has("retryAttempts")) {
            mode.setRetryAttempts(Math.toIntExact(request.integer("retryAttempts")));
        }
        if (request.has("pingInterval")) {
            mode.setPingConnectionInterval(Math.toIntExact(request.integer("pingInterval")));
        }
        if (request.has("namePrefix")) {
            NewerApi.setNamePrefix(config, mode, request.text("namePrefix"));
        }
        return config;
    }

    private static BaseConfig<?> mode(Config config, Request request) {
        if (request.has("cluster")) {
            return cluster(config, request);
        }
        return request.has("sentinels") ? sentinels(config, request) : single(config, request);
    }

    /** One idle connection of each kind: start-up waits for them. The pools still grow to Redisson's default sizes. */
    private static SingleServerConfig single(Config config, Request request) {
        return config.useSingleServer()
                .setAddress(request.text("address"))
                .setConnectionMinimumIdleSize(1)
                .setSubscriptionConnectionMinimumIdleSize(1);
    }

    private static ClusterServersConfig cluster(Config config, Request request) {
        return config.useClusterServers()
                .addNodeAddress(request.texts("cluster").toArray(new String[0]))
                .setMasterConnectionMinimumIdleSize(1)
                .setSlaveConnectionMinimumIdleSize(1)
                .setSubscriptionConnectionMinimumIdleSize(1)
                .setScanInterval(scanMs(request));
    }

    private static SentinelServersConfig sentinels(Config config, Request request) {
        return config.useSentinelServers()
                .addSentinelAddress(request.texts("sentinels").toArray(new String[0]))
                .setMasterName(request.text("master"))
                .setMasterConnectionMinimumIdleSize(1)
                .setSlaveConnectionMinimumIdleSize(1)
                .setSubscriptionConnectionMinimumIdleSize(1)
                .setScanInterval(scanMs(request));
    }

    private static int scanMs(Request request) {
        return request.has("scanInterval") ? Math.toIntExact(request.integer("scanInterval")) : SCAN_MS;
    }
}
