// Which tile a workgroup has, and which split of the keys.
//
// A software driver gives each of its threads one run of neighbouring workgroups (Mesa: as many as there are
// workgroups for each thread), so that the slowest run decides. Under causal masks the last tiles of rows have
// the most keys, and the first tiles of keys the most rows; of the splits of a row, rules leave most empty.
// With formInTurn tiles come in turn from both ends and the splits of a tile are neighbours, so that every run
// has its part of all. Otherwise x counts tiles and y splits.
//
// Included where `form` is known.
const bool inTurn = (form & formInTurn) != 0u;

uint placeOfGroup() { return gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x; }
uint splitOfGroup() { return inTurn ? placeOfGroup() % gl_NumWorkGroups.y : gl_WorkGroupID.y; }
uint tileOfGroup() {
    const uint turn = placeOfGroup() / gl_NumWorkGroups.y;
    const uint tile_ = turn % 2u == 0u ? turn / 2u : gl_NumWorkGroups.x - 1u - turn / 2u;
    return inTurn ? tile_ : gl_WorkGroupID.x; // no branch: NVK took 16 to 24 registers more
}
