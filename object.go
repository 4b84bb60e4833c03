package rratelimiter

import "context"

// Delete removes the limiter, and reports whether there was anything to remove
// (RRateLimiter.delete). It removes the permits that all clients share and those
// of this Client; permits that other clients have taken from a PerClient limit
// end with their own time to live. After an error of the network the limiter may
// have been removed.
func (l *RateLimiter) Delete(ctx context.Context) (bool, error) { return l.limiter.Load().Delete(ctx) }

// Exists reports whether the limiter's hash exists (RRateLimiter.isExists).
func (l *RateLimiter) Exists(ctx context.Context) (bool, error) { return l.limiter.Load().Exists(ctx) }

// Rename gives the limiter another name, with the permits that are taken, and
// replaces any limiter of that name (RRateLimiter.rename, which moves the hash
// alone). This RateLimiter then has the new name. Other RateLimiters keep the old
// name and get ErrNotInitialized, and so may concurrent calls of this one.
// Permits that other clients have taken from a PerClient limit stay under the old
// name.
//
// Errors are ErrNotInitialized if there is no limiter, and ErrInvalidArgument for
// an empty name or, on a cluster or a Ring, a name in another slot (give both the
// same {tag}). After an error of the network the limiter may have been renamed.
func (l *RateLimiter) Rename(ctx context.Context, newName string) error {
	return l.limiter.Load().Rename(ctx, newName, l.limiter.Store)
}
