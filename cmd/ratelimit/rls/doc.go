// Package rls implements Envoy's rate limit protocol (envoy.service.ratelimit.v3) with the limiters of
// this module, so that a gateway shares its limits with services in Go and, through Redisson, in Java.
//
// The configuration is that of the reference service, github.com/envoyproxy/ratelimit, with additions;
// docs/envoy.md describes both, and every difference. Command ratelimit is the complete service. To embed
// it:
//
//	s, err := rls.New(rdb, rls.Options{})
//	...
//	err = s.Load([]rls.File{{Name: "limits.yaml", Data: data}})
//	...
//	pb.RegisterRateLimitServiceServer(server, s)
package rls
