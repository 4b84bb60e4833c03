// Package request builds what is asked of Redis about limiters, sends it and reads the reply. It knows keys,
// arguments, numbers and errors of the scripts, and nothing of callers that wait.
//
// A [Source] is the Client that asks; a [Target] is a limiter with its keys. A [Request] takes permits of one
// limiter or gives them back, a [Group] asks about several in one call, and the methods of a Target are the
// other operations. Each is sent until it is decided: again after a lost reply, with its number, and after
// heal.lua where a limiter is not plain.
package request
