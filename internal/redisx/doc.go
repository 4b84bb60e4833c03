// Package redisx runs Lua scripts on Redis through any go-redis client. It loads and
// sends them, resends them if that is safe, distinguishes network errors from answers of
// Redis, and determines the kind of the client. It knows nothing about limiters.
package redisx
