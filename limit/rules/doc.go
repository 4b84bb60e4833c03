// Package rules has limits as data: a file says which calls are limited, by what, and by
// how much. It is what annotations on endpoints are elsewhere, and it can be changed
// while the program runs.
//
//	rules:
//	  - name: search
//	    match: {route: GET /search, user: true}
//	    by: user
//	    limits:
//	      - rate: 100/1m
//
// [Parse] reads a file and reports every mistake in it with its line. [New] makes limiters
// of it, in memory or on Redis, and [Rules.Allow] asks those that a call falls under.
// [Rules.Reload] and [Rules.Watch] exchange the rules: a limit that did not change keeps
// its state. httplimit.NewRules and the interceptors of grpclimit take a [Rules].
//
// # Which rule wins
//
// A call falls under one rule, and under all that say "also: true". The one rule is that
// with the most specific route, by the precedence of http.ServeMux, wherever it stands in
// the file. Of rules with the same route it is the first whose conditions hold. Where none
// of them holds, the next more general route is looked at. A rule that is exempt has no
// limits, and frees the call from those of "also" as well.
//
// The limits of all rules of a call are asked in the order of the file. They all allow it,
// or nothing is kept. A rule refuses and never waits, so it cannot name leakybucket.Queue and
// tokenbucket.Smooth, which are made for callers that wait. The table of all fields is in docs/rules.md.
package rules
