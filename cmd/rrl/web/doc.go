// Package web shows rate limiters in the browser: a list of the limiters in a Redis, and each of them live.
// rrl serve runs it, and a program with a server of its own can mount it there.
//
// Looking writes nothing to Redis. A limiter is read once a second, however many viewers it has, and not at
// all without viewers. Changes are possible only if Config allows them, with a token.
package web
