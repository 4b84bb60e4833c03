// Package httplimit limits HTTP requests with any limiter of package limit.
package httplimit
