// Package metadata is the API server as a collector of objects needs it: which
// types there are, what they refer to, and the few requests that act on them. It
// knows objects by their metadata alone, and hands them on as policy/cascade
// wants them.
//
// A [Client] asks: Discover, Read, Do and Warn are one request each, or a few. A
// [Follower] follows one type: it lists, watches, and begins anew by itself. The
// caller has hundreds of them; what is wrong with one type concerns no other.
//
// # What is promised
//
// Of [Client.Read], and of [gc.Gone] in an [Outcome]: an object is absent
// only if a Status says NotFound, and its details name that very object. A bare
// 404 (the version is not served, the type has gone), a refusal, an admission
// webhook that answers in the API server's name, HTML, a redirect, silence and
// nonsense are Unknown or Failed, with an error that says why. No read takes an
// answer from a cache that is behind (there is no resourceVersion=0).
//
// Of [Client.Do]: every request carries the UID, as a precondition or as a test
// of the patch; a patch tests uid, name, kind and apiVersion of each reference at
// its place, too. Done of a patch has the object as the server then had it.
//
// Of a [Follower]: what happens after Synced is told in order and completely. If
// that cannot be kept up, Unreadable or Listing says so first. An end of a watch
// that is taken up at the first attempt is not told. Observed may come twice, or
// late, before a list's Synced.
//
//	Listing  Observed…  Synced  (Observed | Deleted | Progress)…
//	Unreadable  Synced           the watch went on without a gap
//	Unreadable  Listing …        it could not, or nobody knows whether it may
//	Away …                       the API server was away for 2 s; then as above
//	WentBack  Listing …          resourceVersions went backwards: etcd was restored;
//	                             all other types need Relist
//
// Of [Follower.CatchUp]: what had happened before the call has been passed to the sink
// when it returns. It costs a list of one object, and waits for the stream to come there.
// Versions are compared with those of the same type alone; others may lie in another
// etcd.
//
// A batch, with its strings and slices, is the sink's to keep. Strings of one
// batch share their memory, so keep copies of few (policy/cascade copies all that
// it keeps: names are cloned, UIDs packed, the rest interned by copy).
//
// # Who owns what
//
// The goroutine of Run owns a follower's state, and calls the sink. Nothing is started
// by New or Follow.
//
// # How lists are read
//
// A list is streamed: a watch that begins with what is there (sendInitialEvents)
// and says so in a bookmark. Where the server refuses that, or never ends it, the
// list is read page by page. Either way one object is held at a time, its
// managedFields and annotations are skipped in place, and a batch has at most 512.
// Types are listed sixteen at a time; one that falls silent gives up its place.
//
// A type of which more than metadata is wanted is listed and watched as whole objects
// ([Fields]); what is kept of them is the sink's to say. The Date of answers tells the API
// server's time ([Client.Time]).
//
// # What is bounded
//
// 16 MiB for an object in a stream, 4 MiB for an answer about one object, 32 MiB
// for discovery, 256 KiB for what a stream that is not read holds back. Requests
// end after 30 s; a watch that says nothing for 90 s (bookmarks come every minute)
// is begun anew, and HTTP/2 pings notice its dead connection in 45. There is no
// client-side rate: who calls Do bounds how much. Watches share one HTTP/2 connection;
// each request has an HTTP/1.1 one to itself, up to 64 of which are kept.
//
// Listing 20,000 config maps took 4.3 µs of CPU, 410 bytes of garbage and 0.3
// allocations an object, 63,000 objects a second beside their API server on two cores.
//
// # Failure modes
//
// Errors carry one of the sentinels ([ErrForbidden], …), what was asked, and what
// a person can do about it. Tokens, certificates and authorities are read from
// their files again. Redirects are not followed. Text of the other side is
// shortened and cleaned. Attempts are 250 ms to 30 s apart, with jitter, or as
// Retry-After says.
//
// An API server takes a watch from a version of the future without a word, and stays
// silent until its etcd has come there. And an etcd that was restored while nobody looked
// may have gone on beyond all versions that were seen. So after a watch broke, and was
// not ended in time, a witness is looked at, once for all types: the Lease, which this
// process writes every two seconds. If it is there as it was written last, etcd has the
// history up to that version (witness.go, continuity.go).
//
//   - The API server was there all the time (a watch or a renewal was heard within two
//     seconds): every watch is taken up.
//   - It was away: types that were told no further than the last renewal before, and of
//     which no request has learned anything since, are taken up; the others are listed.
//   - The Lease is not there as it was written, or there is no election: all are listed.
//
// Types in another etcd are asked for a version of their own, in the places of lists, and
// listed after every absence: those of other API servers, and those whose list does not
// lie between two renewals. Listing says up to which version all had been told; an object
// in the list that is as old, and was not told so, is for the sink to find
// (policy/cascade: Contradicts). Lists after an absence begin within two seconds, sixteen
// at a time; watches are opened eight at a time, which is how many connections are made.
//
// A list that is read page by page, and whose next page etcd has forgotten, is asked for
// again in one answer.
//
// Other API servers (aggregated ones) may not understand protobuf or metadata alone: then
// whole objects in JSON are read, with the same bounds. They are not asked for streamed
// lists, and trusted less in other ways: see aggregated.go. Skipped tells of an object
// there that cannot be followed.
//
// # Sources
//
// "API concepts" of the Kubernetes documentation (watches, bookmarks, streaming
// lists, 410), KEP-3157 (sendInitialEvents), KEP-3352 (aggregated discovery);
// k8s.io/apiserver 1.36: pkg/storage/cacher (bookmarks), endpoints/handlers/patch.go
// (a failed test is 422), pkg/admission/plugin/webhook/errors; the wire format in
// k8s.io/apimachinery/pkg/apis/meta/v1/generated.proto.
package metadata
