// Package web shows rate limiters in the browser: a list of the limiters in a Redis, and a live page for
// each. rrl serve runs it, and a program can mount it on its own server.
//
// It only looks, and writes nothing to Redis. A limiter is read once a second, however many viewers it has,
// and not at all without viewers.
package web
