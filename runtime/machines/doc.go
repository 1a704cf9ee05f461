// Package machines reads an inventory of machines, made by the system that owns them. It is read
// from a file, over HTTP, or from the output of a command, once for each call.
//
// The format is one JSON object, and nothing else is accepted:
//
//	{
//	  "version": 1,
//	  "time": "2026-11-22T12:00:00Z",
//	  "complete": true,
//	  "count": 2,
//	  "nodes": [
//	    {"name": "worker-1", "providerID": "metal://rack-7/worker-1"},
//	    {"name": "worker-2"}
//	  ]
//	}
//
// time is when the list was made, in RFC 3339. count is the number of entries, counted by the
// system that made the list. complete states that no machine was left out. An entry has the name of
// its Node, the Node's spec.providerID, or both.
//
// Each of these is an error that names the cause: an unknown field, a field or an entry that
// occurs twice, a count that differs, an incomplete answer, a status other than 200. After an
// error the caller knows nothing about the machines.
package machines
