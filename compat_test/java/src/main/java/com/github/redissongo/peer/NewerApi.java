package com.github.redissongo.peer;

import java.lang.invoke.MethodType;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.time.Duration;
import java.util.Arrays;
import java.util.stream.Collectors;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RRateLimiter;
import org.redisson.api.RateType;
import org.redisson.api.RedissonClient;
import org.redisson.config.BaseConfig;
import org.redisson.config.Config;

/**
 * What Redisson got after 3.15.5, called by reflection and nowhere else, so that one source compiles against every release
 * since. A release that lacks a method answers with an UnsupportedOperationException that names both.
 */
final class NewerApi {
    private static final String RATE_ARGS = "org.redisson.api.ratelimiter.RateLimiterArgs"; // since 4.4.0
    private static final String FENCED_LOCK = "org.redisson.api.RFencedLock"; // since 3.19.0

    private NewerApi() {
    }

    /** Calls a limiter's method by name and the arguments' types; works for methods of any age. */
    static Object call(RRateLimiter limiter, String method, Object... args) throws Exception {
        return find(RRateLimiter.class, method, args).invoke(limiter, args);
    }

    /** Calls a method of RFencedLock. */
    static Object callFenced(RLock lock, String method, Object... args) throws Exception {
        return find(type(FENCED_LOCK), method, args).invoke(lock, args);
    }

    /** RFencedLock is there since 3.19.0. */
    static RLock fencedLock(RedissonClient client, String name) throws Exception {
        return (RLock) find(RedissonClient.class, "getFencedLock", name).invoke(client, name);
    }

    /** The arguments of setRate and updateRate since 4.4.0. */
    static Object rateArgs(RateType type, long rate, Duration interval, Duration keepAlive, boolean keepState)
            throws Exception {
        Class<?> api = type(RATE_ARGS);
        Object args = find(api, "of", type, rate, interval).invoke(null, type, rate, interval);
        args = find(api, "keepAliveTime", keepAlive).invoke(args, keepAlive);
        return find(api, "keepState", keepState).invoke(args, keepState);
    }

    /**
     * Maps every name to prefix + name. The mapper's type moved to another package in 4.0.0, and since then the one on Config
     * wins over the one of the server mode.
     */
    static void setNamePrefix(Config config, BaseConfig<?> mode, String prefix) throws Exception {
        Method onConfig = setter(Config.class);
        Method set = onConfig != null ? onConfig : setter(BaseConfig.class);
        Class<?> mapper = set.getParameterTypes()[0];
        set.invoke(onConfig != null ? config : mode,
                Proxy.newProxyInstance(mapper.getClassLoader(), new Class<?>[] {mapper}, prefixing(prefix)));
    }

    /** A mapper that takes off what it puts on; a name without the prefix, as of a foreign key, stays as it is. */
    private static InvocationHandler prefixing(String prefix) {
        return (proxy, method, args) -> switch (method.getName()) {
            case "map" -> prefix + args[0];
            case "unmap" -> ((String) args[0]).startsWith(prefix) ? ((String) args[0]).substring(prefix.length()) : args[0];
            case "equals" -> proxy == args[0];
            case "hashCode" -> System.identityHashCode(proxy);
            default -> "prefix " + prefix;
        };
    }

    /** The one setNameMapper of a type, or null; its parameter tells which mapper type this release has. */
    private static Method setter(Class<?> type) {
        return Arrays.stream(type.getMethods()).filter(m -> m.getName().equals("setNameMapper")).findFirst().orElse(null);
    }

    private static Class<?> type(String name) {
        try {
            return Class.forName(name);
        } catch (ClassNotFoundException e) {
            throw unsupported(name);
        }
    }

    /** Looks in the public type, not in the object's class, whose methods may not be called from here. */
    private static Method find(Class<?> type, String name, Object... args) {
        return Arrays.stream(type.getMethods())
                .filter(m -> m.getName().equals(name) && accepts(m, args))
                .findFirst()
                .orElseThrow(() -> unsupported(signature(name, args)));
    }

    /** Reports whether the method can be called with these; wrapped, since a long argument comes as a Long. */
    private static boolean accepts(Method method, Object[] args) {
        Class<?>[] types = MethodType.methodType(void.class, method.getParameterTypes()).wrap().parameterArray();
        if (types.length != args.length) {
            return false;
        }
        for (int i = 0; i < types.length; i++) {
            if (!types[i].isInstance(args[i])) {
                return false;
            }
        }
        return true;
    }

    /** The method with its parameters, because often the name exists and only this overload is missing. */
    private static String signature(String name, Object[] args) {
        return Arrays.stream(args).map(arg -> arg.getClass().getSimpleName()).collect(Collectors.joining(", ", name + "(", ")"));
    }

    private static UnsupportedOperationException unsupported(String name) {
        return new UnsupportedOperationException(
                name + " does not exist in Redisson " + Redisson.class.getPackage().getImplementationVersion());
    }
}
