// Package scripts embeds the Lua scripts of the rate limiter: one file for each operation,
// and in parts what several of them include. Tests check that each script ends, whatever the
// keys hold, and writes out its commands and keys.
package scripts

import "embed"

// Files are the scripts. Included parts are named from its root.
//
//go:embed *.lua parts/*.lua
var Files embed.FS
