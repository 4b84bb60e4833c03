package com.github.redissongo.peer;

/**
 * Counts of durations in buckets that grow with the duration: exact up to 255 ns, above that off by less than 1 %. Adding
 * allocates nothing, so the measuring does not disturb what is measured. For one thread.
 */
final class Histogram {
    private static final int BITS = 7; // each power of two is split into 128 buckets
    private static final int HALF = 1 << BITS;

    private final long[] counts = new long[(Long.SIZE - BITS) * HALF];
    private long count;

    void add(long nanos) {
        counts[bucket(nanos)]++;
        count++;
    }

    void add(Histogram other) {
        for (int i = 0; i < counts.length; i++) {
            counts[i] += other.counts[i];
        }
        count += other.count;
    }

    long count() {
        return count;
    }

    /** The duration within which the given part of all durations lies; 0 when there are none. */
    long quantile(double part) {
        long rank = (long) Math.ceil(part * count);
        int bucket = 0;
        for (long seen = counts[0]; seen < rank; seen += counts[bucket]) {
            bucket++;
        }
        return upper(bucket);
    }

    /** The leading bits select the bucket, the number of bits dropped selects the group of 128. */
    private static int bucket(long nanos) {
        int dropped = Math.max(0, Long.SIZE - Long.numberOfLeadingZeros(nanos) - BITS - 1);
        return dropped * HALF + (int) (nanos >>> dropped);
    }

    /** The largest duration of a bucket. */
    private static long upper(int bucket) {
        int dropped = Math.max(0, bucket / HALF - 1);
        long leading = bucket - (long) dropped * HALF;
        return ((leading + 1) << dropped) - 1;
    }
}
