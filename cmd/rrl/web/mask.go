package web

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"sync"
)

// Masks are hashes that stand for names and ids. They need a secret key: without it, somebody could hash
// names until one gives the mask that he has seen.
type masks struct {
	key [32]byte

	mu sync.Mutex
	of map[string]string // what the masks stand for that were given out; guarded by mu
}

const (
	maskBytes = 8
	mostMasks = 20_000 // more than a list and the clients of its limiters have
)

func newMasks() *masks {
	m := &masks{of: map[string]string{}}
	_, _ = rand.Read(m.key[:]) // it never fails
	return m
}

// mask returns what stands for a text.
func (m *masks) mask(text string) string {
	sum := hmac.New(sha256.New, m.key[:])
	_, _ = sum.Write([]byte(text)) // a hash takes everything
	mask := hex.EncodeToString(sum.Sum(nil)[:maskBytes])
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.of) >= mostMasks {
		clear(m.of) // the next search has them again
	}
	m.of[mask] = text
	return mask
}

// unmask returns what a mask stands for, if it was given out.
func (m *masks) unmask(mask string) (text string, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	text, known = m.of[mask]
	return text, known
}

// public returns how a name or an id is called outside of the server.
func (h *Handler) public(text string) string {
	if h.config.Mask && text != "" {
		return h.masks.mask(text)
	}
	return text
}
