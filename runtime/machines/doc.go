// Package machines reads an inventory of machines: who has them says which there are. It is
// read from a file, asked for over HTTP, or printed by a command, once for each call.
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
// time is when the list was made, in RFC 3339; count is how many entries there are, counted
// by who made it; complete says that no machine was left out. An entry has the name that the
// Node has, its spec.providerID, or both. A field that is not known, or is there twice, a
// count that differs, an entry that is there twice, half an answer, another status than 200:
// each is an error that says what is wrong. Whoever asked then knows nothing.
package machines
