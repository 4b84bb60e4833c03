package com.github.redissongo.peer;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/** The locks that were asked for. Each is one object from then on, as in a program: it remembers its last lease. */
final class Locks {
    private final Clients clients;
    private final Map<Key, RLock> locks = new ConcurrentHashMap<>();

    Locks(Clients clients) {
        this.clients = clients;
    }

    private record Key(RedissonClient client, String kind, String name) {
    }

    /** The lock that the request is about. */
    RLock one(Request request) throws Exception {
        return find(clients.one(request), request);
    }

    /** The lock as each of the request's "clients" sees it, or its one "client". */
    List<RLock> all(Request request) throws Exception {
        List<RLock> all = new ArrayList<>();
        for (RedissonClient client : clients.all(request)) {
            all.add(find(client, request));
        }
        return all;
    }

    /** Shuts an instance down and forgets its locks. */
    Object disconnect(Request request) {
        RedissonClient client = clients.one(request);
        clients.disconnect(request);
        locks.keySet().removeIf(key -> key.client == client);
        return null;
    }

    private RLock find(RedissonClient client, Request request) throws Exception {
        Key key = new Key(client, request.text("kind"), request.text("name"));
        RLock known = locks.get(key);
        if (known != null) {
            return known;
        }
        RLock created = create(key);
        RLock other = locks.putIfAbsent(key, created);
        return other == null ? created : other;
    }

    private static RLock create(Key key) throws Exception {
        return switch (key.kind) {
            case "lock" -> key.client.getLock(key.name);
            case "fenced" -> NewerApi.fencedLock(key.client, key.name);
            case "fair" -> key.client.getFairLock(key.name);
            default -> throw new IllegalArgumentException("unknown kind of lock: " + key.kind);
        };
    }
}
