package com.github.redissongo.peer;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;

/**
 * Redisson behind a line protocol: one JSON request per line on stdin, one JSON answer per line on stdout. A request runs
 * on a thread of its own, so a waiting acquire holds up nothing else and answers may overtake one another; the id tells
 * which answer belongs to which request.
 */
public final class Peer {
    /** How long requests under way may still take when the input has ended. One that waits for permits may wait forever. */
    private static final long GRACE_MILLIS = 1000;

    private final Answers answers;
    private final Clients clients = new Clients();
    private final Locks locks = new Locks(clients);
    private final ExecutorService threads = Executors.newCachedThreadPool();
    private final Map<String, Op> ops = new HashMap<>();

    private Peer(Answers answers) {
        this.answers = answers;
        ops.put("version", request -> Redisson.class.getPackage().getImplementationVersion());
        ops.put("connect", clients::connect);
        ops.put("disconnect", locks::disconnect);
        ops.put("hammer", request -> new Hammer(clients, request).run());
        ops.put("crowd", request -> Crowd.start(clients, request));
        ops.put("drainCrowd", Crowd::drain);
        ops.put("stopCrowd", Crowd::stop);
        ops.put("loop", request -> new Loop(clients, request).run());
        ops.putAll(new LimiterOps(clients).table());
        ops.put("lock.crowd", request -> new LockCrowd(clients, locks, request).run());
        ops.putAll(new LockOps(clients, locks).table());
    }

    /** Serves stdin until it ends. Leaves by System.exit: a waiting acquire keeps its thread for ever. */
    public static void main(String[] args) {
        int status = 0;
        try {
            new Peer(Answers.onStdout()).serve(new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8)));
        } catch (Throwable e) {
            e.printStackTrace();
            status = 1;
        }
        System.exit(status);
    }

    /** Reads until the end, gives requests under way their time, then shuts all clients down. */
    private void serve(BufferedReader in) throws IOException, InterruptedException {
        for (String line; (line = in.readLine()) != null;) {
            Request request = Request.parse(line);
            threads.execute(() -> handle(request));
        }
        threads.shutdown();
        threads.awaitTermination(GRACE_MILLIS, TimeUnit.MILLISECONDS);
        clients.close();
    }

    /** Answers whatever happens: an error is a result like any other to the suite, and must not end the process. */
    private void handle(Request request) {
        Object result;
        try {
            result = op(request.text("op")).run(request);
        } catch (Throwable e) {
            answers.error(request, e);
            return;
        }
        answers.result(request, result);
    }

    private Op op(String name) {
        Op op = ops.get(name);
        if (op == null) {
            throw new IllegalArgumentException("unknown op: " + name);
        }
        return op;
    }
}
