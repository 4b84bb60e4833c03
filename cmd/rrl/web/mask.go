package web

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"sync"
)

// Masks are hashes that stand for names and ids. They need a secret key: without it, a viewer could hash
// names until one gives a mask on the page.
type masks struct {
	key [32]byte

	mu sync.Mutex
	of map[string]string // texts by the masks that were given out; guarded by mu
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

// mask returns the mask of a text.
func (m *masks) mask(text string) string {
	sum := hmac.New(sha256.New, m.key[:])
	_, _ = sum.Write([]byte(text)) // a hash takes everything
	mask := hex.EncodeToString(sum.Sum(nil)[:maskBytes])
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.of) >= mostMasks {
		clear(m.of) // the next search restores them
	}
	m.of[mask] = text
	return mask
}

// unmask returns the text behind a mask, if the mask was given out.
func (m *masks) unmask(mask string) (text string, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	text, ok = m.of[mask]
	return text, ok
}

// public returns a name or an id as viewers see it.
func (h *Handler) public(text string) string {
	if h.config.Mask && text != "" {
		return h.masks.mask(text)
	}
	return text
}
