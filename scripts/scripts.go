// Package scripts embeds the Lua scripts of the rate limiter: one file for each operation, and in parts the
// code that several of them include. Each script ends, whatever the keys hold, and writes out its commands
// and keys; tests check both.
package scripts

import "embed"

// Files has the scripts. An include names a part by its path in Files.
//
//go:embed *.lua parts/*.lua
var Files embed.FS
