package web

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"time"
)

//go:embed static templates
var files embed.FS

// templates are the pages, each with the frame around it.
var templates = func() map[string]*template.Template {
	all := map[string]*template.Template{}
	for _, name := range []string{"list", "limiter", "error"} {
		all[name] = template.Must(template.ParseFS(files, "templates/frame.html", "templates/"+name+".html"))
	}
	return all
}()

// A frame is the part that all pages share.
type frame struct {
	Title   string
	Prefix  string
	Refresh int // seconds after which a browser without scripts loads the page again; 0 for never
	Script  bool
	Page    any
}

// longestWrite bounds how long the write of a page or an event may take. After that the connection is closed,
// and a viewer that is still there connects again.
const longestWrite = 10 * time.Second

// render writes a page. At most mostViewers pages are written at the same time, because each stays in
// memory until its viewer has read it.
func (h *Handler) render(w http.ResponseWriter, status int, name string, f frame) {
	select {
	case h.writing <- struct{}{}:
		defer func() { <-h.writing }()
	default:
		w.Header().Set("Retry-After", "10")
		http.Error(w, "Too many viewers at the moment.", http.StatusServiceUnavailable)
		return
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(longestWrite)) // some servers have none
	f.Prefix = h.config.Prefix
	var page bytes.Buffer
	if err := templates[name].ExecuteTemplate(&page, "frame.html", f); err != nil {
		http.Error(w, "The page could not be made.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(page.Len()))
	w.WriteHeader(status)
	_, _ = page.WriteTo(w) // the viewer may have left
}

// A problem is an error with a text for the viewer.
type problem struct {
	status int
	text   string
}

func (p *problem) Error() string { return p.text }

// refuse writes a page that explains an error.
func (h *Handler) refuse(w http.ResponseWriter, err error) {
	p, retry := h.problemOf(err), 0
	if p.status == http.StatusServiceUnavailable {
		retry = 10
		w.Header().Set("Retry-After", strconv.Itoa(retry))
	}
	h.render(w, p.status, "error", frame{Title: http.StatusText(p.status), Refresh: retry, Page: p.text})
}

func (h *Handler) problemOf(err error) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	text := h.unread(err)
	switch {
	case errors.Is(err, errBusy):
		text = "Too many viewers at the moment. Try again in some seconds."
	case errors.Is(err, errClosed):
		text = "The server is stopping."
	case errors.Is(err, context.DeadlineExceeded):
		text = "Redis is slow. Try again in some seconds."
	}
	return &problem{http.StatusServiceUnavailable, text}
}

// link returns the address of a page about a limiter, with the exact bytes of its name.
func (h *Handler) link(page, hash, id string) string {
	values := url.Values{"name": {h.public(hash)}}
	if id != "" {
		values.Set("id", h.public(id))
	}
	return h.config.Prefix + page + "?" + values.Encode()
}

// wanted returns the limiter of a request, and the client.
func (h *Handler) wanted(r *http.Request) (hash, id string, err error) {
	query := r.URL.Query()
	hash, id = query.Get("name"), query.Get("id")
	if hash == "" || len(hash) > longestName || len(id) > longestName {
		return "", "", &problem{http.StatusBadRequest, "The name of the limiter is missing, or too long."}
	}
	found := true
	if h.config.Mask {
		if hash, found = h.masks.unmask(hash); found && id != "" {
			id, found = h.masks.unmask(id)
		}
	}
	switch {
	case !found:
		return "", "", &problem{http.StatusNotFound,
			"There is no limiter of this name. Masks change when the server restarts: see the list."}
	case !h.matches(hash):
		return "", "", &problem{http.StatusNotFound, "There is no limiter of this name."}
	}
	return hash, id, nil
}

// static serves script and style. A browser asks each time whether its copy is current.
func static(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("file")
	content, err := files.ReadFile(path.Join("static", path.Base(name)))
	if err != nil {
		http.NotFound(w, r)
		return
	}
	sum := sha256.Sum256(content)
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("ETag", `"`+hex.EncodeToString(sum[:8])+`"`)
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(content))
}
