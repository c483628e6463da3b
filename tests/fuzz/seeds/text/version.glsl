#version 450
float vkattnScore(float s, uint b, uint h, uint i, uint j) { return s; }
