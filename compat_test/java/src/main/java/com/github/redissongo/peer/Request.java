package com.github.redissongo.peer;

import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import com.google.gson.JsonParseException;
import com.google.gson.JsonParser;
import com.google.gson.JsonPrimitive;
import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.List;

/**
 * One line of input. Every getter throws an IllegalArgumentException that names the argument when it is missing or of
 * another kind: with defaults, a suite with a misspelt argument would test something else than it says. An argument
 * that is null counts as missing; an argument that the op does not read is ignored.
 */
final class Request {
    private final JsonObject args;
    private final String fault; // why the line could not be read, or null

    private Request(JsonObject args, String fault) {
        this.args = args;
        this.fault = fault;
    }

    /** Reads a line. One that is no JSON object becomes a request whose every argument is an error, so it is answered. */
    static Request parse(String line) {
        try {
            return new Request(JsonParser.parseString(line).getAsJsonObject(), null);
        } catch (JsonParseException | IllegalStateException e) {
            return new Request(new JsonObject(), "not a JSON object: " + line);
        }
    }

    /** The id to answer with, as it came; null when there was none. */
    JsonElement id() {
        return has("id") ? args.get("id") : JsonNull.INSTANCE;
    }

    boolean has(String name) {
        return args.has(name) && !args.get(name).isJsonNull();
    }

    String text(String name) {
        JsonPrimitive value = primitive(name);
        check(value.isString(), name, "a string");
        return value.getAsString();
    }

    /** An integer of 64 bits. Redisson checks few bounds, so neither are they checked here. */
    long integer(String name) {
        JsonPrimitive value = primitive(name);
        check(value.isNumber(), name, "an integer");
        try {
            return new BigDecimal(value.getAsString()).longValueExact();
        } catch (ArithmeticException | NumberFormatException e) {
            throw new IllegalArgumentException("argument " + name + " must be an integer of 64 bits", e);
        }
    }

    long integer(String name, long absent) {
        return has(name) ? integer(name) : absent;
    }

    boolean flag(String name) {
        if (!has(name)) {
            return false;
        }
        JsonPrimitive value = primitive(name);
        check(value.isBoolean(), name, "true or false");
        return value.getAsBoolean();
    }

    /** A list of strings. */
    List<String> texts(String name) {
        JsonElement value = value(name);
        check(value.isJsonArray() && !value.getAsJsonArray().isEmpty(), name, "a list that is not empty");
        List<String> texts = new ArrayList<>();
        for (JsonElement element : value.getAsJsonArray()) {
            check(element.isJsonPrimitive(), name, "a list of strings");
            texts.add(element.getAsString());
        }
        return texts;
    }

    private JsonPrimitive primitive(String name) {
        JsonElement value = value(name);
        check(value.isJsonPrimitive(), name, "a single value");
        return value.getAsJsonPrimitive();
    }

    private JsonElement value(String name) {
        if (fault != null) {
            throw new IllegalArgumentException(fault);
        }
        if (!has(name)) {
            throw new IllegalArgumentException("missing argument: " + name);
        }
        return args.get(name);
    }

    private static void check(boolean ok, String name, String kind) {
        if (!ok) {
            throw new IllegalArgumentException("argument " + name + " must be " + kind);
        }
    }
}
