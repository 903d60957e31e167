"""Questions to SQL, answered by sqlglot's trees and scopes."""
