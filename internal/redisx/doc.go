// Package redisx runs Lua scripts on Redis through any go-redis client. It loads
// and sends them, sends them again where that is safe, tells network errors from
// answers of Redis, and finds out the kind of the client. It knows nothing about
// limiters.
package redisx
