// Package web shows rate limiters in the browser: a list of those in a Redis, and each of them live.
// rrl serve runs it, and a program that has a server of its own can mount it there.
//
// Looking writes nothing to Redis. However many look at a limiter, it is read once a second, and not at
// all while nobody looks. Changes are possible only where Config allows them, with a token.
package web
