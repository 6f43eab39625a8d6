//! What each operator is: type promotion, shapes, broadcasting
