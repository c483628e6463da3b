/* float vkattnScore( */ bool /*x*/ vkattnVisible(const in uint b, highp uint, uint i, uint j)
{ { return true; } }