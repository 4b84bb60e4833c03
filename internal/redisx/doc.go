// Package redisx runs Lua scripts on Redis through whatever go-redis client the
// user has: it loads them, sends them, sends them again where that is safe, tells
// errors of the network from answers of Redis, and knows what kind of client it
// is. It knows nothing of limiters.
package redisx
