package com.github.redissongo.peer;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;

/** The output: one JSON object per line, each written whole and at once. Safe for use by many threads. */
final class Answers {
    private final Gson gson = new GsonBuilder().serializeNulls().disableHtmlEscaping().create();
    private final PrintStream out;

    private Answers(PrintStream out) {
        this.out = out;
    }

    /** Takes stdout for the answers alone: what any library prints goes to stderr from now on. */
    static Answers onStdout() {
        System.setOut(System.err);
        return new Answers(new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8));
    }

    void result(Request request, Object result) {
        Map<String, Object> line = line("id", request.id());
        line.put("result", result);
        write(line);
    }

    /** Answers with the exception that Redisson threw, without what futures and reflection wrapped around it. */
    void error(Request request, Throwable thrown) {
        Throwable cause = unwrap(thrown);
        Map<String, Object> line = line("id", request.id());
        line.put("error", cause.getMessage() == null ? "" : cause.getMessage());
        line.put("type", cause.getClass().getName());
        write(line);
    }

    private static Map<String, Object> line(String key, Object value) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put(key, value);
        return line;
    }

    private void write(Map<String, Object> line) {
        String text = gson.toJson(line) + '\n'; // made outside of the lock: a hammer's answer is long
        synchronized (out) {
            out.print(text);
            out.flush();
        }
    }

    private static Throwable unwrap(Throwable thrown) {
        Throwable cause = thrown;
        while (wraps(cause) && cause.getCause() != null) {
            cause = cause.getCause();
        }
        return cause;
    }

    private static boolean wraps(Throwable thrown) {
        return thrown instanceof CompletionException
                || thrown instanceof ExecutionException
                || thrown instanceof InvocationTargetException;
    }
}
