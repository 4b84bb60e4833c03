package com.google.common.util.concurrent;

import java.util.Locale;
import java.util.Random;
import java.util.concurrent.TimeUnit;

/**
 * Prints what RateLimiter of Guava does on random timelines, by a clock of its own. The class is in the package of
 * Guava because RateLimiter.create with a clock is for its tests only.
 *
 * <pre>
 * limiter RATE WARMUP_US     a limiter; 0 is SmoothBursty
 * sleep US                   time passes
 * acquire N US               N permits, and how long the caller has slept
 * try N TIMEOUT_US YES US    tryAcquire: whether they were granted, and how long the caller has slept
 * </pre>
 */
public final class Timeline {
  private static final class Clock extends RateLimiter.SleepingStopwatch {
    long now;
    long slept;

    @Override
    protected long readMicros() {
      return now;
    }

    @Override
    protected void sleepMicrosUninterruptibly(long micros) {
      now += micros;
      slept += micros;
    }
  }

  public static void main(String[] args) {
    Random random = new Random(16);
    double[] rates = {0.3, 1, 2, 3, 7.5, 100, 1234.5};
    long[] warmUps = {0, 1_000, 250_000, 3_000_000, 60_000_000};
    for (double rate : rates) {
      for (long warmUp : warmUps) {
        timeline(random, rate, warmUp);
      }
    }
  }

  private static void timeline(Random random, double rate, long warmUp) {
    Clock clock = new Clock();
    RateLimiter limiter = warmUp == 0
        ? RateLimiter.create(rate, clock)
        : RateLimiter.create(rate, warmUp, TimeUnit.MICROSECONDS, 3.0, clock);
    System.out.printf(Locale.ROOT, "limiter %s %d%n", rate, warmUp);
    for (int i = 0; i < 60; i++) {
      clock.slept = 0;
      int n = 1 + random.nextInt(random.nextInt(4) == 0 ? 50 : 3);
      switch (random.nextInt(4)) {
        case 0:
          long pause = (long) (random.nextDouble() * random.nextInt(20) * 1e6 / rate);
          clock.now += pause;
          System.out.printf("sleep %d%n", pause);
          break;
        case 1:
          long timeout = (long) (random.nextDouble() * random.nextInt(4) * 1e6 / rate);
          boolean granted = limiter.tryAcquire(n, timeout, TimeUnit.MICROSECONDS);
          System.out.printf("try %d %d %d %d%n", n, timeout, granted ? 1 : 0, clock.slept);
          break;
        default:
          limiter.acquire(n);
          System.out.printf("acquire %d %d%n", n, clock.slept);
      }
    }
  }
}
