// Package extension is an aggregated API server behind a real kube-apiserver: objects
// in memory, served over HTTPS, registered by an APIService. By default it behaves
// correctly: lists in pages, streamed lists, watches with bookmarks, finalizers,
// preconditions. Each [Fault] makes it misbehave as some real server does. Faults may
// be set and cleared at any time, and combined.
//
//	s, err := extension.New(cp.Authority(), extension.Config{})
//	err = s.Register(ctx, cp)             // its types are served when this returns
//	uid := s.Add("things", extension.Object{Namespace: "default", Name: "a"})
//	s.Set(extension.NotFound | extension.EmptyLists)
//	s.Clear(extension.NotFound)
//	s.Restart()                           // counters begin at 1
//	s.Close()
//
// Objects can be created, patched and deleted through the kube-apiserver, too. A
// [Server] is safe for concurrent use.
package extension
